// RUN: not ocannl-opt %s -p lower-loops-to-kernels -t ptx 2>&1 | filecheck %s --check-prefix EXPANDED
// RUN: not ocannl-opt %s -p expand-math,lower-loops-to-kernels -t ptx 2>&1 | filecheck %s --check-prefix LACKING

loops.func @functions {
  %x = assign.node "x" on_device because "node" : memref<3xf32>
  loops.nest "x" (i = 3) {
    %v = loops.load %x[i]
    %sine = math.sin %v : f32
    %root = math.cbrt %sine : f32
    loops.store %root, %x[i]
  }
}

// EXPANDED: error: {{.*}}:8:5: the GPU has no `math.sin` of f32: run expand-math first
// LACKING: error: {{.*}}:9:5: the GPU has no `math.cbrt` of f32{{$}}
