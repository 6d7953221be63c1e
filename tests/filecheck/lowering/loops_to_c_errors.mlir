// RUN: not ocannl-opt %s -t c --split-input-file 2>&1 | filecheck %s

loops.func @f {
  %x = assign.node "x" on_device : memref<3xf32>
  loops.nest "x" (i = 3) {
    %v = loops.load %x[i]
    %far = arith.constant true
    %r = loops.far %far sine(%v) else %v : f32
    loops.store %r, %x[i]
  }
}

// CHECK: error: {{.*}}:8:5: C has no `loops.far`: leave out expand-math, as the pipeline `c` does
