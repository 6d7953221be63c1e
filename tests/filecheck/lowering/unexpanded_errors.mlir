// RUN: not ocannl-opt %s -t llvm 2>&1 | filecheck %s --check-prefix LLVM
// RUN: not ocannl-opt %s -p lower-loops-to-kernels -t ptx 2>&1 | filecheck %s --check-prefix LLVM
// RUN: not ocannl-opt %s -p lower-loops-to-kernels -t metal 2>&1 | filecheck %s --check-prefix METAL

loops.func @noise {
  %x = assign.node "x" on_device because "node" : memref<3xf32>
  loops.nest "x" (i = 3) {
    %place = loops.index i : i32
    %counter = loops.index 7 : i64
    %r = loops.uniform "noise" %place at %counter : f32
    loops.store %r, %x[i]
  }
}

// LLVM: error: {{.*}}:10:5: no LLVM instruction for `loops.uniform`: run expand-math first
// METAL: error: {{.*}}:10:5: Metal has no `loops.uniform`: run expand-math first
