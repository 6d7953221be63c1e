// RUN: not ocannl-opt %s -t llvm 2>&1 | filecheck %s

// CHECK: error: {{.*}}repeat_errors.mlir:14:3: @body needs a workspace of 8 bytes at least: run plan-memory
loops.func @body indices (t = 4) attributes {arena = 64 : i64} {
  %s = assign.node "s" on_device : memref<2xf32>
  %u = assign.node "u" local at 0 : memref<2xf32>
  loops.nest "u" (i = 2) {
    %0 = loops.load %s[i]
    loops.store %0, %u[i]
  }
}
loops.func @main {
  %s = assign.node "s" on_device : memref<2xf32>
  loops.repeat @body t = 4 ("s" = %s)
}
