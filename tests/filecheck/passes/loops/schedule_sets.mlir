// RUN: ocannl-opt %s -p schedule | filecheck %s

// Tiles of 128 bytes at a distance of 1024 meet in few sets of the first-level cache, which would hold them all: many rows of
// results read a copy.
loops.func @meets {
  %g = assign.node "g" on_device : memref<32768x64xf32>
  %w = assign.node "w" on_device : memref<64x256xf32>
  %y = assign.node "y" on_device : memref<32768x256xf32>
  loops.nest "y" (b = 32768, c = 256) {
    %s = loops.reduce add (o = 64) : f32 {
      %gv = loops.load %g[b, o]
      %wv = loops.load %w[o, c]
      %p = arith.mulf %gv, %wv : f32
      loops.yield %p
    }
    loops.store %s, %y[b, c]
  }
}
// CHECK-LABEL: loops.func @meets
// CHECK: %[[PACKED:.*]] = assign.node "w.packed" local because "contiguous copy for y" : memref<8x64x32xf32>
// CHECK: loops.load %[[PACKED]][c_panel, o, c]

// Few rows read it as it is.
loops.func @few {
  %g = assign.node "g" on_device : memref<64x64xf32>
  %w = assign.node "w" on_device : memref<64x256xf32>
  %y = assign.node "y" on_device : memref<64x256xf32>
  loops.nest "y" (b = 64, c = 256) {
    %s = loops.reduce add (o = 64) : f32 {
      %gv = loops.load %g[b, o]
      %wv = loops.load %w[o, c]
      %p = arith.mulf %gv, %wv : f32
      loops.yield %p
    }
    loops.store %s, %y[b, c]
  }
}
// CHECK-LABEL: loops.func @few
// CHECK-NOT: packed
