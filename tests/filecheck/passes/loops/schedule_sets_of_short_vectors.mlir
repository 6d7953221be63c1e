// RUN: ocannl-opt %s --cpu x86-64-v3 -p schedule | filecheck %s
// RUN: ocannl-opt %s --cpu x86-64-v4 -p schedule | filecheck %s --check-prefix=WIDE

// A step of vectors of half a line takes no longer than the lines that it waits for, where tiles meet in few sets of the
// first-level cache: fewer rows of results read a copy than with vectors of a whole line.
loops.func @some {
  %g = assign.node "g" on_device : memref<1024x128xf32>
  %w = assign.node "w" on_device : memref<128x512xf32>
  %y = assign.node "y" on_device : memref<1024x512xf32>
  loops.nest "y" (b = 1024, c = 512) {
    %s = loops.reduce add (o = 128) : f32 {
      %gv = loops.load %g[b, o]
      %wv = loops.load %w[o, c]
      %p = arith.mulf %gv, %wv : f32
      loops.yield %p
    }
    loops.store %s, %y[b, c]
  }
}
// CHECK-LABEL: loops.func @some
// CHECK: loops.nest "w.packed" (c_panel = 32, o = 128, c = 16)
// WIDE-LABEL: loops.func @some
// WIDE-NOT: packed

// So do the blocks of the gradient of a weight: each copies its part of the columns.
loops.func @gradient {
  %g = assign.node "g" on_device : memref<1024x128xf32>
  %x = assign.node "x" on_device : memref<1024x512xf32>
  %dw = assign.node "dw" on_device : memref<128x512xf32>
  loops.nest "dw" (o = 128, i = 512) {
    %s = loops.reduce add (b = 1024) : f32 {
      %gv = loops.load %g[b, o]
      %xv = loops.load %x[b, i]
      %p = arith.mulf %gv, %xv : f32
      loops.yield %p
    }
    loops.store %s, %dw[o, i]
  }
}
// CHECK-LABEL: loops.func @gradient
// CHECK: loops.group "dw.sums" (i_block = 4, b_block = 4)
// CHECK: loops.nest "x.packed" (i_panel = 8, b = 256, i = 16)
// CHECK: loops.nest "dw.sums" (o = 128, i_panel = 8, i = 16)
// WIDE-LABEL: loops.func @gradient
// WIDE-NOT: packed
