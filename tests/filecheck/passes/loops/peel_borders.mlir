// RUN: ocannl-opt %s --split-input-file -p peel-borders | filecheck %s

// Windows of 3 x 3 begin in zeros at the first positions of both axes: of the four nests, one has all other
// positions. Each keeps the schedule.
// CHECK-LABEL: loops.func @forward
// CHECK:       loops.nest "y" (b = 32, h = 7, w = 7, o = 64) schedule <order = (h, w, o, b), rows = b : 8, lanes = o : 32>
// CHECK-NEXT:    loops.reduce add (i = 3, j = 3, c = 64)
// CHECK-NEXT:      loops.load %p[b, 2*h + i + 2, j + 2*w + 2, c]
// CHECK-NEXT:      loops.load %k[o, i, j, c]
// CHECK:         loops.store %{{.*}}, %y[b, h + 1, w + 1, o]
// CHECK:       loops.nest "y border" (b = 32, h = 7, w = 1, o = 64)
// CHECK-NEXT:    loops.reduce add (i = 3, j = 2, c = 64)
// CHECK-NEXT:      loops.load %p[b, 2*h + i + 2, j + 2*w + 1, c]
// CHECK-NEXT:      loops.load %k[o, i, j + 1, c]
// CHECK:         loops.store %{{.*}}, %y[b, h + 1, w, o]
// CHECK:       loops.nest "y border" (b = 32, h = 1, w = 7, o = 64)
// CHECK-NEXT:    loops.reduce add (i = 2, j = 3, c = 64)
// CHECK:       loops.nest "y border" (b = 32, h = 1, w = 1, o = 64)
// CHECK-NEXT:    loops.reduce add (i = 2, j = 2, c = 64)
loops.func @forward {
  %x = assign.node "x" constant because "data" : memref<32x16x16x64xf32>
  %k = assign.node "k" on_device because "parameter" : memref<64x3x3x64xf32>
  %p = assign.node "p" local because "intermediate value" : memref<32x17x17x64xf32>
  %y = assign.node "y" on_device because "computed by forward" : memref<32x8x8x64xf32>
  loops.nest "p reset" (b = 32, h = 17, w = 17, c = 64) {
    %0 = arith.constant 0.0 : f32
    loops.store %0, %p[b, h, w, c]
  }
  loops.nest "p" (b = 32, h = 16, w = 16, c = 64) {
    %1 = loops.load %x[b, h, w, c]
    loops.store %1, %p[b, h + 1, w + 1, c]
  }
  loops.nest "y" (b = 32, h = 8, w = 8, o = 64) schedule <order = (h, w, o, b), rows = b : 8, lanes = o : 32> {
    %s = loops.reduce add (i = 3, j = 3, c = 64) : f32 {
      %d = loops.load %p[b, 2*h + i, 2*w + j, c]
      %g = loops.load %k[o, i, j, c]
      %m = arith.mulf %d, %g : f32
      loops.yield %m
    }
    loops.store %s, %y[b, h, w, o]
  }
}

// -----

// The sums over positions of the gradient of a kernel: at the first offset, all but the first one.
// CHECK-LABEL: loops.func @of_kernel
// CHECK:       loops.nest "dk" (o = 64, i = 2, c = 64)
// CHECK-NEXT:    loops.reduce add (b = 64, h = 8)
// CHECK-NEXT:      loops.load %p[b, 2*h + i + 1, c]
// CHECK-NEXT:      loops.load %g[b, h, o]
// CHECK:         loops.store %{{.*}}, %dk[o, i + 1, c]
// CHECK:       loops.nest "dk border" (o = 64, i = 1, c = 64)
// CHECK-NEXT:    loops.reduce add (b = 64, h = 7)
// CHECK-NEXT:      loops.load %p[b, 2*h + i + 2, c]
// CHECK-NEXT:      loops.load %g[b, h + 1, o]
// CHECK:         loops.store %{{.*}}, %dk[o, i, c]
loops.func @of_kernel {
  %x = assign.node "x" constant because "data" : memref<64x16x64xf32>
  %g = assign.node "g" on_device because "gradient" : memref<64x8x64xf32>
  %p = assign.node "p" local because "intermediate value" : memref<64x17x64xf32>
  %dk = assign.node "dk" on_device because "gradient" : memref<64x3x64xf32>
  loops.nest "p reset" (b = 64, h = 17, c = 64) {
    %0 = arith.constant 0.0 : f32
    loops.store %0, %p[b, h, c]
  }
  loops.nest "p" (b = 64, h = 16, c = 64) {
    %1 = loops.load %x[b, h, c]
    loops.store %1, %p[b, h + 1, c]
  }
  loops.nest "dk" (o = 64, i = 3, c = 64) schedule <order = (i, c, o), rows = o : 8, lanes = c : 32> {
    %s = loops.reduce add (b = 64, h = 8) : f32 {
      %d = loops.load %p[b, 2*h + i, c]
      %a = loops.load %g[b, h, o]
      %m = arith.mulf %d, %a : f32
      loops.yield %m
    }
    loops.store %s, %dk[o, i, c]
  }
}

// -----

// Too small: a second nest would cost more than it saves.
// CHECK-LABEL: loops.func @small
// CHECK-NOT:   border
loops.func @small {
  %x = assign.node "x" constant because "data" : memref<4x8x4xf32>
  %k = assign.node "k" on_device because "parameter" : memref<4x3x4xf32>
  %p = assign.node "p" local because "intermediate value" : memref<4x9x4xf32>
  %y = assign.node "y" on_device because "computed by forward" : memref<4x4x4xf32>
  loops.nest "p reset" (b = 4, h = 9, c = 4) {
    %0 = arith.constant 0.0 : f32
    loops.store %0, %p[b, h, c]
  }
  loops.nest "p" (b = 4, h = 8, c = 4) {
    %1 = loops.load %x[b, h, c]
    loops.store %1, %p[b, h + 1, c]
  }
  loops.nest "y" (b = 4, h = 4, o = 4) schedule <order = (h, b, o), lanes = o : 4> {
    %s = loops.reduce add (i = 3, c = 4) : f32 {
      %d = loops.load %p[b, 2*h + i, c]
      %g = loops.load %k[o, i, c]
      %m = arith.mulf %d, %g : f32
      loops.yield %m
    }
    loops.store %s, %y[b, h, o]
  }
}

// -----

// Windows that move along both axes with one position are cut at one of them.
// CHECK-LABEL: loops.func @diagonal
// CHECK:       loops.nest "y" (b = 32, h = 7, o = 64)
// CHECK-NEXT:    loops.reduce add (i = 3, j = 3, c = 64)
// CHECK-NEXT:      loops.load %p[b, 2*h + i + 2, 2*h + j + 2, c]
// CHECK:       loops.nest "y border" (b = 32, h = 1, o = 64)
// CHECK-NEXT:    loops.reduce add (i = 2, j = 3, c = 64)
// CHECK-NEXT:      loops.load %p[b, 2*h + i + 1, 2*h + j, c]
// CHECK-NEXT:      loops.load %k[o, i + 1, j, c]
// CHECK:         loops.store %{{.*}}, %y[b, h, o]
// CHECK-NOT:   loops.nest
loops.func @diagonal {
  %x = assign.node "x" constant because "data" : memref<32x16x16x64xf32>
  %k = assign.node "k" on_device because "parameter" : memref<64x3x3x64xf32>
  %p = assign.node "p" local because "intermediate value" : memref<32x17x17x64xf32>
  %y = assign.node "y" on_device because "computed by forward" : memref<32x8x64xf32>
  loops.nest "p reset" (b = 32, h = 17, w = 17, c = 64) {
    %0 = arith.constant 0.0 : f32
    loops.store %0, %p[b, h, w, c]
  }
  loops.nest "p" (b = 32, h = 16, w = 16, c = 64) {
    %1 = loops.load %x[b, h, w, c]
    loops.store %1, %p[b, h + 1, w + 1, c]
  }
  loops.nest "y" (b = 32, h = 8, o = 64) schedule <order = (h, o, b), rows = b : 8, lanes = o : 32> {
    %s = loops.reduce add (i = 3, j = 3, c = 64) : f32 {
      %d = loops.load %p[b, 2*h + i, 2*h + j, c]
      %g = loops.load %k[o, i, j, c]
      %m = arith.mulf %d, %g : f32
      loops.yield %m
    }
    loops.store %s, %y[b, h, o]
  }
}
