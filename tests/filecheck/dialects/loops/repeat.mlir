// RUN: ocannl-opt %s | ocannl-opt | filecheck %s
// RUN: ocannl-opt %s --print-op-generic | ocannl-opt | filecheck %s

loops.func @body indices (t = 4) attributes {arena = 64 : i64} {
  %s = assign.node "s" on_device : memref<2xf32>
  %u = assign.node "u" local at 0 : memref<2xf32>
  loops.nest "u" (i = 2) {
    %0 = loops.load %s[i]
    loops.store %0, %u[i]
  }
  loops.nest "s" (i = 2) {
    %0 = loops.load %u[i]
    loops.store %0, %s[i]
  }
}

// CHECK-LABEL: loops.func @main
// CHECK:         loops.repeat @body t = 4 ("s" = %s) workspace %w
// CHECK-NEXT:    loops.repeat @body t = 4 while %going ("s" = %s) workspace %w
loops.func @main attributes {arena = 64 : i64} {
  %s = assign.node "s" on_device : memref<2xf32>
  %going = assign.node "going" on_device : memref<1xf32>
  %w = assign.node "w" local at 0 : memref<64xi8>
  loops.repeat @body t = 4 ("s" = %s) workspace %w
  loops.repeat @body t = 4 while %going ("s" = %s) workspace %w
}
