// RUN: ocannl-opt %s -p "schedule{cpu=x86-64-v4}" | filecheck %s

// A convolution of 3 x 3 at every other position. Where the loop over panels of the kernel is the outermost one, each comes
// from beyond the cache once, as all tiles of rows meet it again. Images, which then come 16 times, are far fewer bytes than
// the kernel would be at each of 16 positions.
// CHECK: loops.nest "y" {{.*}} order = (o_panel, o, h, w, b)
loops.func @deep {
  %x = assign.node "x" on_device : memref<32x9x9x256xf32>
  %k = assign.node "k" on_device : memref<512x3x3x256xf32>
  %y = assign.node "y" on_device : memref<32x4x4x512xf32>
  loops.nest "y" (b = 32, h = 4, w = 4, o = 512) {
    %s = loops.reduce add (i = 3, j = 3, c = 256) : f32 {
      %a = loops.load %x[b, 2*h + i, 2*w + j, c]
      %c = loops.load %k[o, i, j, c]
      %p = arith.mulf %a, %c : f32
      loops.yield %p
    }
    loops.store %s, %y[b, h, w, o]
  }
}

// So it is for larger images. Tiles have their rows along the batch, as borders may split positions of windows that overlap and
// move by larger steps; those of other windows lie in a row.
// CHECK: loops.nest "y" {{.*}} order = (o_panel, o, h, w, b), {{.*}} rows = b : 8
loops.func @wide {
  %x = assign.node "x" on_device : memref<32x17x17x256xf32>
  %k = assign.node "k" on_device : memref<256x3x3x256xf32>
  %y = assign.node "y" on_device : memref<32x8x8x256xf32>
  loops.nest "y" (b = 32, h = 8, w = 8, o = 256) {
    %s = loops.reduce add (i = 3, j = 3, c = 256) : f32 {
      %a = loops.load %x[b, 2*h + i, 2*w + j, c]
      %c = loops.load %k[o, i, j, c]
      %p = arith.mulf %a, %c : f32
      loops.yield %p
    }
    loops.store %s, %y[b, h, w, o]
  }
}

// CHECK: loops.nest "y" {{.*}} rows = w : 8
loops.func @apart {
  %x = assign.node "x" on_device : memref<32x16x16x256xf32>
  %k = assign.node "k" on_device : memref<256x2x2x256xf32>
  %y = assign.node "y" on_device : memref<32x8x8x256xf32>
  loops.nest "y" (b = 32, h = 8, w = 8, o = 256) {
    %s = loops.reduce add (i = 2, j = 2, c = 256) : f32 {
      %a = loops.load %x[b, 2*h + i, 2*w + j, c]
      %c = loops.load %k[o, i, j, c]
      %p = arith.mulf %a, %c : f32
      loops.yield %p
    }
    loops.store %s, %y[b, h, w, o]
  }
}

// So are positions where windows overlap in what they add to: the gradient of an image.
// CHECK: loops.nest "dx" (b = 32, h = 16, i = 3, j = 3, w = 16, c_panel = 4, c = 32) {{.*}} rows = b : 8
loops.func @scattered {
  %g = assign.node "g" on_device : memref<32x16x16x128xf32>
  %k = assign.node "k" on_device : memref<128x3x3x128xf32>
  %dx = assign.node "dx" on_device : memref<32x33x33x128xf32>
  loops.nest "dx" (b = 32, h = 16, i = 3, j = 3, w = 16, c = 128) {
    %s = loops.reduce add (o = 128) : f32 {
      %a = loops.load %g[b, h, w, o]
      %c = loops.load %k[o, i, j, c]
      %p = arith.mulf %a, %c : f32
      loops.yield %p
    }
    %0 = loops.load %dx[b, 2*h + i, j + 2*w, c]
    %1 = arith.addf %0, %s : f32
    loops.store %1, %dx[b, 2*h + i, j + 2*w, c]
  }
}

// Where several orders take far fewer bytes than the one of the stores, the one of the fewest is taken: here not that with the
// panels inside of the rows of positions.
// CHECK: loops.nest "y" {{.*}} order = (o_panel, o, h, w, b)
loops.func @deepest {
  %x = assign.node "x" on_device : memref<32x9x9x512xf32>
  %k = assign.node "k" on_device : memref<512x3x3x512xf32>
  %y = assign.node "y" on_device : memref<32x4x4x512xf32>
  loops.nest "y" (b = 32, h = 4, w = 4, o = 512) {
    %s = loops.reduce add (i = 3, j = 3, c = 512) : f32 {
      %a = loops.load %x[b, 2*h + i, 2*w + j, c]
      %c = loops.load %k[o, i, j, c]
      %p = arith.mulf %a, %c : f32
      loops.yield %p
    }
    loops.store %s, %y[b, h, w, o]
  }
}
