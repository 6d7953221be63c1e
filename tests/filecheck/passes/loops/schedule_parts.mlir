// RUN: ocannl-opt %s -p "schedule{cpu=znver4}" | filecheck %s

// The gradient of a kernel of 3 x 3 at every other position. The partial sums of eight parts are 2.25 MiB, twice as much as the
// second-level cache holds, but a thread needs those of one part at a time, which are in it with an image.
// CHECK-LABEL: loops.func @some
// CHECK:       loops.nest "dk.sums reset" (b_part = 8, o = 128, i = 3, j = 3, c = 64)
// CHECK:       loops.group "dk.sums" (b_part = 8, b = 4) schedule <parallel = (b_part : 1)> {
// CHECK-NEXT:    loops.nest "dk.sums" (o = 128, i = 3, j = 3, c = 64)
loops.func @some {
  %x = assign.node "x" on_device because "data" : memref<32x33x33x64xf32>
  %g = assign.node "g" on_device because "data" : memref<32x16x16x128xf32>
  %dk = assign.node "dk" on_device because "gradient" : memref<128x3x3x64xf32>
  loops.nest "dk" (o = 128, i = 3, j = 3, c = 64) {
    %s = loops.reduce add (b = 32, h = 16, w = 16) : f32 {
      %a = loops.load %g[b, h, w, o]
      %v = loops.load %x[b, 2*h + i, 2*w + j, c]
      %p = arith.mulf %a, %v : f32
      loops.yield %p
    }
    loops.store %s, %dk[o, i, j, c]
  }
}

// Those of four parts would be 9 MiB: threads share the results.
// CHECK-LABEL: loops.func @many
// CHECK-NOT:   b_part
// CHECK:       loops.group "dk.sums"
loops.func @many {
  %x = assign.node "x" on_device because "data" : memref<32x17x17x256xf32>
  %g = assign.node "g" on_device because "data" : memref<32x8x8x256xf32>
  %dk = assign.node "dk" on_device because "gradient" : memref<256x3x3x256xf32>
  loops.nest "dk" (o = 256, i = 3, j = 3, c = 256) {
    %s = loops.reduce add (b = 32, h = 8, w = 8) : f32 {
      %a = loops.load %g[b, h, w, o]
      %v = loops.load %x[b, 2*h + i, 2*w + j, c]
      %p = arith.mulf %a, %v : f32
      loops.yield %p
    }
    loops.store %s, %dk[o, i, j, c]
  }
}
