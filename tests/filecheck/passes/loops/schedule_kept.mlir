// RUN: ocannl-opt %s -p 'schedule{keep=true}' | filecheck %s
// RUN: ocannl-opt %s -p schedule | filecheck %s --check-prefix=AGAIN

// AGAIN-NOT: kept

// The copy is written before, by one thread: it runs only when the weights have changed.
loops.func @infers {
  %w = assign.node "w" on_device because "parameter" : memref<256x256xf32>
  %x = assign.node "x" on_device : memref<8x256xf32>
  %y = assign.node "y" on_device : memref<8x256xf32>
  loops.nest "y" (b = 8, o = 256) {
    %sum = loops.reduce add (i = 256) : f32 {
      %wv = loops.load %w[o, i]
      %xv = loops.load %x[b, i]
      %p = arith.mulf %wv, %xv : f32
      loops.yield %p
    }
    loops.store %sum, %y[b, o]
  }
}
// CHECK-LABEL: loops.func @infers
// CHECK: %[[PACKED:.*]] = assign.node "w.packed" kept because "contiguous copy for y" : memref<8x256x32xf32>
// CHECK-NEXT: loops.nest "w.packed" (o_panel = 8, i = 256, o = 32) schedule <order = (o_panel, i, o), rows = {{.}} : 16, lanes = {{.}} : 16> {
// CHECK: loops.nest "y"
// CHECK: loops.load %[[PACKED]][o_panel, i, o]

// What it writes itself has no copy.
loops.func @trains {
  %w = assign.node "w" on_device because "parameter" : memref<256x256xf32>
  %x = assign.node "x" on_device : memref<8x256xf32>
  %y = assign.node "y" on_device : memref<8x256xf32>
  loops.nest "y" (b = 8, o = 256) {
    %sum = loops.reduce add (i = 256) : f32 {
      %wv = loops.load %w[o, i]
      %xv = loops.load %x[b, i]
      %p = arith.mulf %wv, %xv : f32
      loops.yield %p
    }
    loops.store %sum, %y[b, o]
  }
  loops.nest "w" (i = 256) {
    %v = loops.load %w[0, i]
    loops.store %v, %w[1, i]
  }
}
// CHECK-LABEL: loops.func @trains
// CHECK-NOT: kept

// One row reads each weight once; other nodes than parameters may be written by who counts nothing.
loops.func @reads_once {
  %w = assign.node "w" on_device because "parameter" : memref<256x256xf32>
  %d = assign.node "d" on_device because "data" : memref<256x256xf32>
  %x = assign.node "x" on_device : memref<8x256xf32>
  %y = assign.node "y" on_device : memref<256xf32>
  %z = assign.node "z" on_device : memref<8x256xf32>
  loops.nest "y" (o = 256) {
    %sum = loops.reduce add (i = 256) : f32 {
      %wv = loops.load %w[o, i]
      %xv = loops.load %x[0, i]
      %p = arith.mulf %wv, %xv : f32
      loops.yield %p
    }
    loops.store %sum, %y[o]
  }
  loops.nest "z" (b = 8, o = 256) {
    %sum = loops.reduce add (i = 256) : f32 {
      %wv = loops.load %d[o, i]
      %xv = loops.load %x[b, i]
      %p = arith.mulf %wv, %xv : f32
      loops.yield %p
    }
    loops.store %sum, %z[b, o]
  }
}
// CHECK-LABEL: loops.func @reads_once
// CHECK-NOT: kept
