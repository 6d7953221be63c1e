// RUN: ocannl-opt %s -p schedule{cpu=sapphirerapids} | filecheck %s

// The weight gradient of an LSTM. The rows of a tile are two loops of results that are merged; threads share the outer
// one, and a part of the inner one.
loops.func @f {
  %g = assign.node "g" on_device because "data" : memref<64x32x4x256xf32>
  %x = assign.node "x" on_device because "data" : memref<64x32x256xf32>
  %y = assign.node "y" on_device because "computed by forward" : memref<4x256x256xf32>
  loops.nest "y" (o = 4, p = 256, i = 256) {
    %s = loops.reduce add (t = 64, b = 32) : f32 {
      %a = loops.load %g[t, b, o, p]
      %v = loops.load %x[t, b, i]
      %m = arith.mulf %a, %v : f32
      loops.yield %m
    }
    loops.store %s, %y[o, p, i]
  }
}
// CHECK: loops.group "y.sums" (o = 4, p_block = 2, t_block = 32) schedule <parallel = (o : 1, p_block : 1)> {
// CHECK-NEXT: loops.nest "y.sums" (p = 128, i_panel = 8, i = 32) schedule <merged = (t*b), order = (i_panel, i, p), rows = p : 8, lanes = i : 32> {
