// RUN: ocannl-opt %s -p fuse-sums | filecheck %s

// The sums of a batch norm's gradients: those of the same arrays are one nest, and with it that of one of them.
// The other array alone is left, as its sum needs one of the others.
loops.func @gradients {
  %x = assign.node "x" on_device because "data" : memref<4x64x16xf32>
  %g = assign.node "g" on_device because "gradient" : memref<4x64x16xf32>
  %gain = assign.node "gain" on_device because "parameter" : memref<16xf32>
  %a = assign.node "a" on_device because "gradient" : memref<16xf32>
  %b = assign.node "b" on_device because "gradient" : memref<16xf32>
  %c = assign.node "c" on_device because "gradient" : memref<16xf32>
  %d = assign.node "d" on_device because "gradient" : memref<16xf32>
  loops.nest "a" (o = 16) {
    %sum = loops.reduce add (i = 4, j = 64) : f32 {
      %0 = loops.load %g[i, j, o]
      loops.yield %0
    }
    loops.store %sum, %a[o]
  }
  loops.nest "b" (o = 16) {
    %1 = loops.load %gain[o]
    %sum = loops.reduce add (i = 4, j = 64) : f32 {
      %2 = loops.load %g[i, j, o]
      %3 = loops.load %x[i, j, o]
      %4 = arith.mulf %2, %3 : f32
      %5 = arith.mulf %4, %1 : f32
      loops.yield %5
    }
    loops.store %sum, %b[o]
  }
  loops.nest "c" (o = 16) {
    %6 = loops.load %b[o]
    %sum = loops.reduce add (i = 4, j = 64) : f32 {
      %7 = loops.load %x[i, j, o]
      %8 = arith.mulf %7, %6 : f32
      loops.yield %8
    }
    loops.store %sum, %c[o]
  }
  loops.nest "d .. gain" (c = 16) {
    %sum = loops.reduce add (k = 4, l = 64) : f32 {
      %9 = loops.load %x[k, l, c]
      %10 = loops.load %g[k, l, c]
      %11 = arith.mulf %9, %10 : f32
      loops.yield %11
    }
    loops.store %sum, %d[c]
    loops.store %sum, %gain[c]
  }
}

// CHECK-LABEL: loops.func @gradients {
// CHECK:         loops.nest "a .. gain" (o = 16) {
// CHECK-NEXT:      loops.reduce add (i = 4, j = 64) : f32 {
// CHECK:           loops.store %{{.*}}, %a[o]
// CHECK-NEXT:      loops.load %gain[o]
// CHECK-NEXT:      loops.reduce add
// CHECK:           loops.store %{{.*}}, %b[o]
// CHECK-NEXT:      loops.reduce add
// CHECK:           loops.store %{{.*}}, %d[o]
// CHECK-NEXT:      loops.store %{{.*}}, %gain[o]
// CHECK:         loops.nest "c" (o = 16) {

// Sums along rows, of other arrays or over other spaces, and products of matrices stay apart.
loops.func @apart {
  %x = assign.node "x" on_device because "data" : memref<64x64xf32>
  %y = assign.node "y" on_device because "data" : memref<64x64xf32>
  %a = assign.node "a" on_device because "gradient" : memref<64xf32>
  %b = assign.node "b" on_device because "gradient" : memref<64xf32>
  %c = assign.node "c" on_device because "gradient" : memref<64xf32>
  %d = assign.node "d" on_device because "gradient" : memref<64xf32>
  %p = assign.node "p" on_device because "gradient" : memref<64x64xf32>
  %q = assign.node "q" on_device because "gradient" : memref<64x64xf32>
  loops.nest "a" (o = 64) {
    %sum = loops.reduce add (i = 64) : f32 {
      %0 = loops.load %x[o, i]
      loops.yield %0
    }
    loops.store %sum, %a[o]
  }
  loops.nest "b" (o = 64) {
    %sum = loops.reduce max (i = 64) : f32 {
      %1 = loops.load %x[o, i]
      loops.yield %1
    }
    loops.store %sum, %b[o]
  }
  loops.nest "c" (o = 64) {
    %sum = loops.reduce add (i = 64) : f32 {
      %2 = loops.load %y[i, o]
      loops.yield %2
    }
    loops.store %sum, %c[o]
  }
  loops.nest "d" (o = 64) {
    %sum = loops.reduce add (i = 32) : f32 {
      %3 = loops.load %y[i, o]
      loops.yield %3
    }
    loops.store %sum, %d[o]
  }
  loops.nest "p" (m = 64, n = 64) {
    %sum = loops.reduce add (k = 64) : f32 {
      %4 = loops.load %x[k, m]
      %5 = loops.load %y[k, n]
      %6 = arith.mulf %4, %5 : f32
      loops.yield %6
    }
    loops.store %sum, %p[m, n]
  }
  loops.nest "q" (m = 64, n = 64) {
    %sum = loops.reduce add (k = 64) : f32 {
      %7 = loops.load %x[k, m]
      %8 = loops.load %y[k, n]
      %9 = arith.mulf %7, %8 : f32
      loops.yield %9
    }
    loops.store %sum, %q[m, n]
  }
}
// CHECK-LABEL: loops.func @apart {
// CHECK:         loops.nest "a" (o = 64) {
// CHECK:         loops.nest "b" (o = 64) {
// CHECK:         loops.nest "c" (o = 64) {
// CHECK:         loops.nest "d" (o = 64) {
// CHECK:         loops.nest "p" (m = 64, n = 64) {
// CHECK:         loops.nest "q" (m = 64, n = 64) {
