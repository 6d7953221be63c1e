// RUN: ocannl-opt %s --cpu x86-64-v3 -p schedule | filecheck %s

// A matrix that a vector is multiplied with is read once: a copy would be read as well.
// CHECK-LABEL: loops.func @vector
// CHECK-NOT:     packed
// CHECK:         loops.nest "y" (b = 1, o = 3072) schedule <order = (o, b), parallel = (o : 64), lanes = o : 32> {
// CHECK-NOT:     packed
loops.func @vector {
  %x = assign.node "x" on_device : memref<1x768xf64>
  %w = assign.node "w" on_device : memref<768x3072xf64>
  %y = assign.node "y" on_device : memref<1x3072xf64>
  loops.nest "y" (b = 1, o = 3072) {
    %sum = loops.reduce add (i = 768) : f64 {
      %xv = loops.load %x[b, i]
      %wv = loops.load %w[i, o]
      %p = arith.mulf %xv, %wv : f64
      loops.yield %p
    }
    loops.store %sum, %y[b, o]
  }
}
