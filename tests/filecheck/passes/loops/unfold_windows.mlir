// RUN: ocannl-opt %s -p "unfold-windows{least=0}" | filecheck %s

// A convolution of 3 channels, and the gradient of its kernel: windows are the rows of a matrix, which both use.
loops.func @convolution {
  %x = assign.node "x" constant because "data" : memref<8x10x10x3xf32>
  %w = assign.node "w" on_device because "parameter" : memref<16x3x3x3xf32>
  %y = assign.node "y" on_device because "computed by forward" : memref<8x8x8x16xf32>
  %g = assign.node "g" on_device because "gradient" : memref<8x8x8x16xf32>
  loops.nest "y" (b = 8, h = 8, w = 8, o = 16) {
    %sum = loops.reduce add (i = 3, j = 3, c = 3) : f32 {
      %0 = loops.load %x[b, h + i, j + w, c]
      %1 = loops.load %w[o, i, j, c]
      %2 = arith.mulf %0, %1 : f32
      loops.yield %2
    }
    %zero = arith.constant 0.0 : f32
    %3 = arith.maximumf %sum, %zero : f32
    loops.store %3, %y[b, h, w, o]
  }
  loops.nest "w" (o = 16, i = 3, j = 3, c = 3) {
    %sum = loops.reduce add (b = 8, h = 8, w = 8) : f32 {
      %0 = loops.load %g[b, h, w, o]
      %1 = loops.load %x[b, h + i, j + w, c]
      %2 = arith.mulf %0, %1 : f32
      loops.yield %2
    }
    %3 = loops.load %w[o, i, j, c]
    %4 = arith.subf %3, %sum : f32
    loops.store %4, %w[o, i, j, c]
  }
}

// CHECK-LABEL: loops.func @convolution {
// CHECK-DAG:     %[[X:.*]] = assign.node "x.matrix" local because "x with windows as rows" : memref<8x8x8x27xf32>
// CHECK-DAG:     %[[W:.*]] = assign.node "w.matrix" local because "w with windows as rows" : memref<16x27xf32>
// CHECK-DAG:     %[[C:.*]] = assign.node "w.columns" local because "w, with windows as columns" : memref<16x27xf32>
// CHECK:         loops.nest "x.matrix" (b = 8, h = 8, w = 8, i = 3, j = 3, c = 3) {
// CHECK-NEXT:      %[[V:.*]] = loops.load %x[b, h + i, j + w, c]
// CHECK-NEXT:      loops.store %[[V]], %[[X]][b, h, w, c + 9*i + 3*j]
// CHECK:         loops.nest "w.matrix" (o = 16, i = 3, j = 3, c = 3) {
// CHECK:         loops.nest "y" (b = 8, h = 8, w = 8, o = 16) {
// CHECK-NEXT:      loops.reduce add (column = 27) : f32 {
// CHECK-NEXT:        loops.load %[[X]][b, h, w, column]
// CHECK-NEXT:        loops.load %[[W]][o, column]
// CHECK:           arith.maximumf
// CHECK-NOT:     loops.nest "x.matrix
// CHECK:         loops.nest "w.columns" (o = 16, column = 27) {
// CHECK-NEXT:      %[[S:.*]] = loops.reduce add (b = 8, h = 8, w = 8) : f32 {
// CHECK-NEXT:        loops.load %g[b, h, w, o]
// CHECK-NEXT:        loops.load %[[X]][b, h, w, column]
// CHECK:           loops.store %[[S]], %[[C]][o, column]
// CHECK:         loops.nest "w" (o = 16, i = 3, j = 3, c = 3) {
// CHECK-NEXT:      loops.load %[[C]][o, c + 9*i + 3*j]
// CHECK-NOT:       loops.reduce

// What is written in between is unfolded again.
loops.func @changed {
  %x = assign.node "x" on_device because "parameter" : memref<64x3x3xf32>
  %w = assign.node "w" on_device because "parameter" : memref<16x3x3xf32>
  %y = assign.node "y" on_device because "computed by forward" : memref<64x16xf32>
  %z = assign.node "z" on_device because "computed by forward" : memref<64x16xf32>
  loops.nest "y" (b = 64, o = 16) {
    %sum = loops.reduce add (i = 3, j = 3) : f32 {
      %0 = loops.load %x[b, i, j]
      %1 = loops.load %w[o, i, j]
      %2 = arith.mulf %0, %1 : f32
      loops.yield %2
    }
    loops.store %sum, %y[b, o]
  }
  loops.nest "x" (b = 64) {
    %one = arith.constant 1.0 : f32
    loops.store %one, %x[b, 0, 0]
  }
  loops.nest "z" (b = 64, o = 16) {
    %sum = loops.reduce max (i = 3, j = 3) : f32 {
      %0 = loops.load %x[b, i, j]
      %1 = loops.load %w[o, i, j]
      %2 = arith.addf %0, %1 : f32
      loops.yield %2
    }
    loops.store %sum, %z[b, o]
  }
}
// CHECK-LABEL: loops.func @changed {
// CHECK:         loops.nest "x.matrix" (b = 64, i = 3, j = 3) {
// CHECK:         loops.nest "w.matrix" (o = 16, i = 3, j = 3) {
// CHECK:         loops.nest "y" (b = 64, o = 16) {
// CHECK:         loops.nest "x.matrix1" (b = 64, i = 3, j = 3) {
// CHECK-NOT:     loops.nest "w.matrix
// CHECK:         loops.nest "z" (b = 64, o = 16) {

// With channels enough it is a product of matrices; and products of each image alone stay as they are.
loops.func @kept {
  %x = assign.node "x" constant because "data" : memref<8x10x10x16xf32>
  %w = assign.node "w" on_device because "parameter" : memref<16x3x3x16xf32>
  %y = assign.node "y" on_device because "computed by forward" : memref<8x8x8x16xf32>
  %v = assign.node "v" on_device because "parameter" : memref<8x16x3x3xf32>
  %z = assign.node "z" on_device because "computed by forward" : memref<8x8x8x16xf32>
  loops.nest "y" (b = 8, h = 8, w = 8, o = 16) {
    %sum = loops.reduce add (i = 3, j = 3, c = 16) : f32 {
      %0 = loops.load %x[b, h + i, j + w, c]
      %1 = loops.load %w[o, i, j, c]
      %2 = arith.mulf %0, %1 : f32
      loops.yield %2
    }
    loops.store %sum, %y[b, h, w, o]
  }
  loops.nest "z" (b = 8, h = 8, w = 8, o = 16) {
    %sum = loops.reduce add (i = 3, j = 3) : f32 {
      %0 = loops.load %x[b, h + i, j + w, 0]
      %1 = loops.load %v[b, o, i, j]
      %2 = arith.mulf %0, %1 : f32
      loops.yield %2
    }
    loops.store %sum, %z[b, h, w, o]
  }
}
// CHECK-LABEL: loops.func @kept {
// CHECK-NOT:     matrix
