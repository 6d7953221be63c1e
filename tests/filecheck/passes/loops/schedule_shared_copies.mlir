// RUN: ocannl-opt %s -p schedule | filecheck %s

// Copies of operands that several points of a group share are made before the group, once for each of its other
// variables.
loops.func @shared {
  %x = assign.node "x" constant because "data" : memref<1024x12x64xf32>
  %k = assign.node "k" constant because "data" : memref<2048x12x64xf32>
  %y = assign.node "y" on_device because "computed by forward" : memref<12x1024x2048xf32>
  loops.group "y" (h = 12, s_block = 32) {
    loops.nest "y" (s = 32, t = 2048) {
      %0 = loops.reduce add (d = 64) : f32 {
        %1 = loops.load %x[s + 32*s_block, h, d]
        %2 = loops.load %k[t, h, d]
        %3 = arith.mulf %1, %2 : f32
        loops.yield %3
      }
      loops.store %0, %y[h, s + 32*s_block, t]
    }
  }
}
// CHECK-LABEL: loops.func @shared
// CHECK: %[[PACKED:.*]] = assign.node "k.packed" local because "contiguous copy for y" : memref<12x64x64x32xf32>
// CHECK-NEXT: loops.nest "k.packed" (h = 12, t_panel = 64, d = 64, t = 32)
// CHECK: loops.group "y" (h = 12, s_block = 32)
// CHECK-NEXT: loops.nest "y"
// CHECK: loops.load %[[PACKED]][h, t_panel, d, t]

// A copy of what differs from point to point is made in each of them.
loops.func @own {
  %x = assign.node "x" constant because "data" : memref<256x12x64xf32>
  %k = assign.node "k" constant because "data" : memref<2048x12x64xf32>
  %y = assign.node "y" on_device because "computed by forward" : memref<12x256x2048xf32>
  loops.group "y" (h = 12) {
    loops.nest "y" (s = 256, t = 2048) {
      %0 = loops.reduce add (d = 64) : f32 {
        %1 = loops.load %x[s, h, d]
        %2 = loops.load %k[t, h, d]
        %3 = arith.mulf %1, %2 : f32
        loops.yield %3
      }
      loops.store %0, %y[h, s, t]
    }
  }
}
// CHECK-LABEL: loops.func @own
// CHECK: loops.group "y" (h = 12)
// CHECK: %[[OWN:.*]] = assign.node "{{.}}.packed" local
// CHECK: loops.nest "{{.}}.packed"

// What a point computes first, and for a copy of which the stack has no room, is read where it is.
loops.func @computed_inside {
  %x = assign.node "x" constant because "data" : memref<8x1024x1024xf32>
  %w = assign.node "w" constant because "data" : memref<8x512x1024xf32>
  %p = assign.node "p" local because "intermediate value" : memref<8x1024x1024xf32>
  %y = assign.node "y" on_device because "computed by forward" : memref<8x512x1024xf32>
  loops.nest "p" (b = 8, k = 1024, j = 1024) {
    %0 = arith.constant 0.0 : f32
    loops.store %0, %p[b, k, j]
  }
  loops.group "p .. y" (b = 8) {
    loops.nest "p" (k = 1024, j = 1024) {
      %1 = loops.load %x[b, k, j]
      loops.store %1, %p[b, k, j]
    }
    loops.nest "y" (i = 512, j = 1024) {
      %2 = loops.reduce add (k = 1024) : f32 {
        %3 = loops.load %w[b, i, k]
        %4 = loops.load %p[b, k, j]
        %5 = arith.mulf %3, %4 : f32
        loops.yield %5
      }
      loops.store %2, %y[b, i, j]
    }
  }
}
// CHECK-LABEL: loops.func @computed_inside
// CHECK-NOT: packed
// CHECK: loops.group "p .. y" (b = 8)
// CHECK-NOT: packed
// CHECK: loops.load %p[b, k, j]
