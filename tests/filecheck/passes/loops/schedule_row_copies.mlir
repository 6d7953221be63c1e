// RUN: ocannl-opt %s --cpu x86-64-v3 -p schedule | filecheck %s

// The gradient of the kernel of a convolution with a stride. Each step of its sum reads six rows of `g` from another
// page, and six do not divide 512, so that a copy of them has no panels: it pays all the same.
// CHECK:       loops.nest "g.packed" {{.*}} {
// CHECK:       loops.group "dk" (i = 3, j = 3, c_panel = 16)
// CHECK:         loops.nest "dk" (o = 512, c = 16) schedule <order = (c, o), rows = o : 6, lanes = c : 16> {
// CHECK-NEXT:      loops.reduce add (b = 32, h = 4, w = 4)
loops.func @strided {
  %x = assign.node "x" on_device : memref<32x9x9x256xf32>
  %g = assign.node "g" on_device : memref<32x4x4x512xf32>
  %dk = assign.node "dk" on_device : memref<512x3x3x256xf32>
  loops.nest "dk" (o = 512, i = 3, j = 3, c = 256) {
    %sum = loops.reduce add (b = 32, h = 4, w = 4) : f32 {
      %gv = loops.load %g[b, h, w, o]
      %xv = loops.load %x[b, i + 2*h, j + 2*w, c]
      %p = arith.mulf %gv, %xv : f32
      loops.yield %p
    }
    loops.store %sum, %dk[o, i, j, c]
  }
}
