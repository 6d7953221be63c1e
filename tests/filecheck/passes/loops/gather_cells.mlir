// RUN: ocannl-opt %s -p gather-cells | filecheck %s

// The gradient of the input of a depthwise convolution with padding: inside, each cell has all nine offsets; at
// the borders, fewer, and at both of an axis as many, so that these are one nest. The margin, which nobody reads,
// is not computed, and what is left is stored where it would be copied to.
loops.func @depthwise {
  %g = assign.node "g" constant because "data" : memref<8x16x16x64xf32>
  %w = assign.node "w" constant because "data" : memref<64x3x3xf32>
  %p = assign.node "p" local because "intermediate value" : memref<8x18x18x64xf32>
  %x = assign.node "x" on_device because "gradient" : memref<8x16x16x64xf32>
  loops.nest "p reset" (i = 8, i1 = 18, i2 = 18, i3 = 64) {
    %zero = arith.constant 0.0 : f32
    loops.store %zero, %p[i, i1, i2, i3]
  }
  loops.nest "p" (b = 8, kh = 3, oh = 16, kw = 3, ow = 16, c = 64) {
    %0 = loops.load %g[b, oh, ow, c]
    %1 = loops.load %w[c, kh, kw]
    %2 = loops.load %p[b, oh + kh, ow + kw, c]
    %3 = math.fma %0, %1, %2 : f32
    loops.store %3, %p[b, oh + kh, ow + kw, c]
  }
  loops.nest "x" (b = 8, h = 16, w = 16, c = 64) {
    %4 = loops.load %p[b, h + 1, w + 1, c]
    loops.store %4, %x[b, h, w, c]
  }
}

// CHECK-LABEL: loops.func @depthwise {
// CHECK:         assign.node "p" virtual because "computed where it was copied to"
// CHECK-NOT:     reset
// CHECK:         loops.nest "x" (b = 8, c = 64, oh_side = 2, ow_side = 2) {
// CHECK-NEXT:      %[[S:.*]] = loops.reduce add (kh = 2, kw = 2) : f32 {
// CHECK-NEXT:        loops.load %g[b, -kh + 14*oh_side + 1, -kw + 14*ow_side + 1, c]
// CHECK-NEXT:        loops.load %w[c, kh + oh_side, kw + ow_side]
// CHECK:           loops.store %[[S]], %x[b, 15*oh_side, 15*ow_side, c]
// CHECK:         loops.nest "x" (b = 8, oh = 14, ow = 14, c = 64) {
// CHECK-NEXT:      %[[T:.*]] = loops.reduce add (kh = 3, kw = 3) : f32 {
// CHECK-NEXT:        %[[A:.*]] = loops.load %g[b, -kh + oh + 2, -kw + ow + 2, c]
// CHECK-NEXT:        %[[B:.*]] = loops.load %w[c, kh, kw]
// CHECK-NEXT:        %[[P:.*]] = arith.mulf %[[A]], %[[B]] : f32
// CHECK-NEXT:        loops.yield %[[P]]
// CHECK:           loops.store %[[T]], %x[b, oh + 1, ow + 1, c]
// CHECK-NOT:     loops.nest

// Windows that move by two: even cells have two offsets and odd ones one, which takes no sum.
loops.func @strided {
  %g = assign.node "g" constant because "data" : memref<64x16x64xf32>
  %y = assign.node "y" constant because "data" : memref<64x16x64xf32>
  %v = assign.node "v" constant because "data" : memref<64x33x64xf32>
  %x = assign.node "x" on_device because "gradient" : memref<64x33x64xf32>
  loops.nest "x reset" (i = 64, i1 = 33, i2 = 64) {
    %zero = arith.constant 0.0 : f32
    loops.store %zero, %x[i, i1, i2]
  }
  loops.nest "x" (b = 64, h = 16, k = 3, c = 64) {
    %0 = loops.load %y[b, h, c]
    %1 = loops.load %v[b, 2*h + k, c]
    %2 = loops.load %g[b, h, c]
    %3 = arith.cmpf oeq, %0, %1 : f32
    %4 = arith.constant 0.0 : f32
    %5 = arith.select %3, %2, %4 : f32
    %6 = loops.load %x[b, 2*h + k, c]
    %7 = arith.addf %6, %5 : f32
    loops.store %7, %x[b, 2*h + k, c]
  }
}
// CHECK-LABEL: loops.func @strided {
// CHECK-NOT:     reset
// CHECK:         loops.store %{{.*}}, %x[b, 32*h_side, c]
// CHECK:         loops.nest "x" (b = 64, h = 15, c = 64) {
// CHECK-NEXT:      loops.reduce add (k = 2) : f32 {
// CHECK-NEXT:        loops.load %y[b, h - k + 1, c]
// CHECK-NEXT:        loops.load %v[b, 2*h + 2, c]
// CHECK:           loops.store %{{.*}}, %x[b, 2*h + 2, c]
// CHECK:         loops.nest "x" (b = 64, h = 16, c = 64) {
// CHECK-NEXT:      loops.load %y[b, h, c]
// CHECK-NEXT:      loops.load %v[b, 2*h + 1, c]
// CHECK-NOT:     loops.load %x
// CHECK:           loops.store %{{.*}}, %x[b, 2*h + 1, c]

// Of few terms it stays a scatter: nests that are started cost more.
loops.func @few {
  %g = assign.node "g" constant because "data" : memref<4x16xf32>
  %x = assign.node "x" on_device because "gradient" : memref<6x16xf32>
  loops.nest "x reset" (i = 6, i1 = 16) {
    %zero = arith.constant 0.0 : f32
    loops.store %zero, %x[i, i1]
  }
  loops.nest "x" (h = 4, k = 3, c = 16) {
    %0 = loops.load %g[h, c]
    %1 = loops.load %x[h + k, c]
    %2 = arith.addf %0, %1 : f32
    loops.store %2, %x[h + k, c]
  }
}
// CHECK-LABEL: loops.func @few {
// CHECK:         loops.nest "x reset"
// CHECK:         loops.nest "x" (h = 4, k = 3, c = 16) {
