// RUN: not ocannl-opt %s -t ptx --split-input-file 2>&1 | filecheck %s

loops.func @early {
  %x = assign.node "x" on_device : memref<3xf32>
  loops.nest "x" (i = 3) {
    %c = arith.constant 1.0 : f32
    loops.store %c, %x[i]
  }
}

// CHECK: error: {{.*}}:5:3: `loops.nest` is no kernel yet: run lower-loops-to-kernels
