// RUN: ocannl-opt %s -p trim-resets | filecheck %s

// Zeros around images: rows above and below, then columns at both sides of those between.
loops.func @padded {
  %x = assign.node "x" on_device because "data" : memref<256x32x32x64xf32>
  %p = assign.node "p" local because "intermediate value" : memref<256x34x34x64xf32>
  %y = assign.node "y" on_device because "result" : memref<256x34x34x64xf32>
  loops.nest "p reset" (b = 256, h = 34, w = 34, c = 64) {
    %zero = arith.constant 0.0 : f32
    loops.store %zero, %p[b, h, w, c]
  }
  loops.nest "p" (b = 256, h = 32, w = 32, c = 64) {
    %0 = loops.load %x[b, h, w, c]
    loops.store %0, %p[b, h + 1, w + 1, c]
  }
  loops.nest "y" (b = 256, h = 34, w = 34, c = 64) {
    %1 = loops.load %p[b, h, w, c]
    loops.store %1, %y[b, h, w, c]
  }
}
// CHECK-LABEL: loops.func @padded {
// CHECK:         loops.nest "p reset" (side = 2, i0 = 256, i2 = 34, i3 = 64) {
// CHECK-NEXT:      %[[Z:.*]] = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:      loops.store %[[Z]], %p[i0, 33*side, i2, i3]
// CHECK:         loops.nest "p reset" (side = 2, i0 = 256, i1 = 32, i3 = 64) {
// CHECK:           loops.store %{{.*}}, %p[i0, i1 + 1, 33*side, i3]
// CHECK:         loops.nest "p" (b = 256, h = 32, w = 32, c = 64) {

// On one side only, two wide.
loops.func @one_side {
  %x = assign.node "x" on_device because "data" : memref<256x32x32x64xf32>
  %p = assign.node "p" local because "intermediate value" : memref<256x34x33x64xf32>
  loops.nest "p reset" (b = 256, h = 34, w = 33, c = 64) {
    %zero = arith.constant 0.0 : f32
    loops.store %zero, %p[b, h, w, c]
  }
  loops.nest "p" (b = 256, h = 32, w = 32, c = 64) {
    %0 = loops.load %x[b, h, w, c]
    loops.store %0, %p[b, h, w + 1, c]
  }
}
// CHECK-LABEL: loops.func @one_side {
// CHECK:         loops.nest "p reset" (i0 = 256, i1 = 2, i2 = 33, i3 = 64) {
// CHECK:           loops.store %{{.*}}, %p[i0, i1 + 32, i2, i3]
// CHECK:         loops.nest "p reset" (i0 = 256, i1 = 32, i3 = 64) {
// CHECK:           loops.store %{{.*}}, %p[i0, i1, 0, i3]
// CHECK:         loops.nest "p" (b = 256, h = 32, w = 32, c = 64) {

// A few cells are reset at once; and so is what the next nest reads, stores to
// on a diagonal, or with gaps.
loops.func @kept {
  %x = assign.node "x" on_device because "data" : memref<256x16x16x256xf32>
  %s = assign.node "s" local because "intermediate value" : memref<2x34x34x64xf32>
  %r = assign.node "r" local because "intermediate value" : memref<256x34x34x256xf32>
  %d = assign.node "d" local because "intermediate value" : memref<256x34x34x256xf32>
  %g = assign.node "g" local because "intermediate value" : memref<256x34x34x256xf32>
  loops.nest "s reset" (b = 2, h = 34, w = 34, c = 64) {
    %zero = arith.constant 0.0 : f32
    loops.store %zero, %s[b, h, w, c]
  }
  loops.nest "s" (b = 2, h = 16, w = 16, c = 64) {
    %0 = loops.load %x[b, h, w, c]
    loops.store %0, %s[b, h + 1, w + 1, c]
  }
  loops.nest "r reset" (b = 256, h = 34, w = 34, c = 256) {
    %zero = arith.constant 0.0 : f32
    loops.store %zero, %r[b, h, w, c]
  }
  loops.nest "r" (b = 256, h = 16, w = 16, c = 256) {
    %1 = loops.load %r[b, h + 17, w + 17, c]
    loops.store %1, %r[b, h + 1, w + 1, c]
  }
  loops.nest "d reset" (b = 256, h = 34, w = 34, c = 256) {
    %zero = arith.constant 0.0 : f32
    loops.store %zero, %d[b, h, w, c]
  }
  loops.nest "d" (b = 256, h = 16, c = 256) {
    %3 = loops.load %x[b, h, h, c]
    loops.store %3, %d[b, h, h + 1, c]
  }
  loops.nest "g reset" (b = 256, h = 34, w = 34, c = 256) {
    %zero = arith.constant 0.0 : f32
    loops.store %zero, %g[b, h, w, c]
  }
  loops.nest "g" (b = 256, h = 16, w = 16, c = 256) {
    %2 = loops.load %x[b, h, w, c]
    loops.store %2, %g[b, 2*h, w + 1, c]
  }
}
// CHECK-LABEL: loops.func @kept {
// CHECK:         loops.nest "s reset" (b = 2, h = 34, w = 34, c = 64) {
// CHECK:         loops.nest "r reset" (b = 256, h = 34, w = 34, c = 256) {
// CHECK:         loops.nest "d reset" (b = 256, h = 34, w = 34, c = 256) {
// CHECK:         loops.nest "g reset" (b = 256, h = 34, w = 34, c = 256) {
