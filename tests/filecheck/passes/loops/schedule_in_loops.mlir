// RUN: ocannl-opt %s -p schedule | filecheck %s
// RUN: ocannl-opt %s -p schedule,hoist-from-loops | filecheck %s --check-prefix=HOISTED

// A copy of what no iteration writes runs once for all of them, so that it pays for few rows, too.
loops.func @step.body indices (t = 64) {
  %w = assign.node "w" on_device because "captured" : memref<1024x256xf32>
  %h = assign.node "h" on_device because "carried" : memref<32x256xf32>
  %ys = assign.node "ys" on_device because "stacked" : memref<64x32x1024xf32>
  loops.nest "ys" (b = 32, o = 1024) {
    %s = loops.reduce add (i = 256) : f32 {
      %wv = loops.load %w[o, i]
      %hv = loops.load %h[b, i]
      %p = arith.mulf %wv, %hv : f32
      loops.yield %p
    }
    loops.store %s, %ys[t, b, o]
  }
  loops.nest "h" (b = 32, i = 256) {
    %v = loops.load %ys[t, b, i]
    loops.store %v, %h[b, i]
  }
}
// CHECK-LABEL: loops.func @step.body
// CHECK: %[[PACKED:.*]] = assign.node "w.packed" local because "contiguous copy for ys" : memref<32x256x32xf32>
// CHECK-NEXT: loops.nest "w.packed" (o_panel = 32, i = 256, o = 32)
// CHECK: loops.nest "ys" (b = 32, o_panel = 32, o = 32)
// CHECK: loops.load %[[PACKED]][o_panel, i, o]
// HOISTED-LABEL: loops.func @step.body
// HOISTED-NOT: loops.nest "w.packed"
// HOISTED: loops.func @step {
// HOISTED: loops.nest "w.packed"
// HOISTED: loops.repeat @step.body

// One iteration pays for all of its copies.
loops.func @once.body indices (t = 1) {
  %w = assign.node "w" on_device because "captured" : memref<1024x256xf32>
  %h = assign.node "h" on_device because "carried" : memref<32x256xf32>
  %ys = assign.node "ys" on_device because "stacked" : memref<64x32x1024xf32>
  loops.nest "ys" (b = 32, o = 1024) {
    %s = loops.reduce add (i = 256) : f32 {
      %wv = loops.load %w[o, i]
      %hv = loops.load %h[b, i]
      %p = arith.mulf %wv, %hv : f32
      loops.yield %p
    }
    loops.store %s, %ys[t, b, o]
  }
  loops.nest "h" (b = 32, i = 256) {
    %v = loops.load %ys[t, b, i]
    loops.store %v, %h[b, i]
  }
}
// CHECK-LABEL: loops.func @once.body
// CHECK-NOT: "w.packed"

// What an iteration writes, or reads at its index, has no such copy.
loops.func @varies.body indices (t = 64) {
  %w = assign.node "w" on_device because "captured" : memref<64x1024x256xf32>
  %u = assign.node "u" on_device because "carried" : memref<1024x256xf32>
  %h = assign.node "h" on_device because "captured" : memref<32x256xf32>
  %ys = assign.node "ys" on_device because "stacked" : memref<64x32x1024xf32>
  %zs = assign.node "zs" on_device because "stacked" : memref<64x32x1024xf32>
  loops.nest "ys" (b = 32, o = 1024) {
    %s = loops.reduce add (i = 256) : f32 {
      %wv = loops.load %w[t, o, i]
      %hv = loops.load %h[b, i]
      %p = arith.mulf %wv, %hv : f32
      loops.yield %p
    }
    loops.store %s, %ys[t, b, o]
  }
  loops.nest "zs" (b = 32, o = 1024) {
    %s = loops.reduce add (i = 256) : f32 {
      %wv = loops.load %u[o, i]
      %hv = loops.load %h[b, i]
      %p = arith.mulf %wv, %hv : f32
      loops.yield %p
    }
    loops.store %s, %zs[t, b, o]
  }
  loops.nest "u" (o = 1024, i = 256) {
    %v = loops.load %u[o, i]
    %n = arith.negf %v : f32
    loops.store %n, %u[o, i]
  }
}
// CHECK-LABEL: loops.func @varies.body
// CHECK-NOT: "w.packed"
// CHECK-NOT: "u.packed"

// CHECK-LABEL: loops.func @step {
loops.func @step {
  %w = assign.node "w" on_device because "parameter" : memref<1024x256xf32>
  %v = assign.node "v" on_device because "parameter" : memref<64x1024x256xf32>
  %u = assign.node "u" on_device because "parameter" : memref<1024x256xf32>
  %h = assign.node "h" on_device because "data" : memref<32x256xf32>
  %ys = assign.node "ys" on_device because "computed by step" : memref<64x32x1024xf32>
  %zs = assign.node "zs" on_device because "computed by step" : memref<64x32x1024xf32>
  loops.repeat @step.body t = 64 ("w" = %w, "h" = %h, "ys" = %ys)
  loops.repeat @once.body t = 1 ("w" = %w, "h" = %h, "ys" = %ys)
  loops.repeat @varies.body t = 64 ("w" = %v, "u" = %u, "h" = %h, "ys" = %ys, "zs" = %zs)
}
