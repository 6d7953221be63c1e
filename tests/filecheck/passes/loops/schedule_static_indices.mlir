// RUN: ocannl-opt %s -p schedule{cpu=x86-64-v3} | filecheck %s

// A static index has no points: what a panel copies in a group is a part of one batch.
loops.func @f indices (n = 4) {
  %x = assign.node "x" constant because "data" : memref<4x2048x256xf32>
  %g = assign.node "g" constant because "data" : memref<2048x256xf32>
  %y = assign.node "y" on_device because "gradient" : memref<256x256xf32>
  loops.nest "y" (o = 256, i = 256) {
    %s = loops.reduce add (b = 2048) : f32 {
      %a = loops.load %g[b, o]
      %c = loops.load %x[n, b, i]
      %p = arith.mulf %a, %c : f32
      loops.yield %p
    }
    loops.store %s, %y[o, i]
  }
}

// CHECK:      loops.group "y.sums" (i_block = 4, b_block = 8) schedule <parallel = (i_block : 1)> {
// CHECK-NEXT:   %{{.*}} = assign.node "x.packed" local because "contiguous copy for y.sums" : memref<4x256x16xf32>
// CHECK-NEXT:   loops.nest "x.packed" (i_panel = 4, b = 256, i = 16) schedule <order = (i_panel, b, i), lanes = i : 16> {
// CHECK-NEXT:     %{{.*}} = loops.load %x[n, b + 256*b_block, i + 64*i_block + 16*i_panel]
