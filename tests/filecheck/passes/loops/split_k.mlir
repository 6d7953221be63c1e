// RUN: ocannl-opt %s -p split-k | filecheck %s

// The gradient of a weight: parts of its sum have blocks of their own. What is done with it comes after.
loops.func @gradient {
  %x = assign.node "x" constant because "data" : memref<1024x128xf32>
  %g = assign.node "g" constant because "data" : memref<1024x128xf32>
  %w = assign.node "w" on_device because "parameter" : memref<128x128xf32>
  loops.nest "w" (o = 128, i = 128) {
    %sum = loops.reduce add (b = 1024) : f32 {
      %0 = loops.load %g[b, o]
      %1 = loops.load %x[b, i]
      %2 = arith.mulf %0, %1 : f32
      loops.yield %2
    }
    %3 = loops.load %w[o, i]
    %4 = arith.subf %3, %sum : f32
    loops.store %4, %w[o, i]
  }
}

// CHECK-LABEL: loops.func @gradient {
// CHECK:         %[[P:.*]] = assign.node "w.partial" local because "partial results of w" : memref<16x128x128xf32>
// CHECK-NEXT:    loops.nest "w.partial" (b_part = 16, o = 128, i = 128) {
// CHECK-NEXT:      %[[S:.*]] = loops.reduce add (b = 64) : f32 {
// CHECK-NEXT:        %{{.*}} = loops.load %g[b + 64*b_part, o]
// CHECK-NEXT:        %{{.*}} = loops.load %x[b + 64*b_part, i]
// CHECK:           loops.store %[[S]], %[[P]][b_part, o, i]
// CHECK-NEXT:    }
// CHECK-NEXT:    loops.nest "w" (o = 128, i = 128) {
// CHECK-NEXT:      %[[T:.*]] = loops.reduce add (b_part = 16) : f32 {
// CHECK-NEXT:        %[[L:.*]] = loops.load %[[P]][b_part, o, i]
// CHECK-NEXT:        loops.yield %[[L]]
// CHECK-NEXT:      }
// CHECK-NEXT:      %{{.*}} = loops.load %w[o, i]

// With results enough, there are blocks enough.
loops.func @large {
  %x = assign.node "x" constant because "data" : memref<2048x2048xf32>
  %y = assign.node "y" on_device because "computed by forward" : memref<2048x2048xf32>
  loops.nest "y" (o = 2048, i = 2048) {
    %sum = loops.reduce add (k = 2048) : f32 {
      %0 = loops.load %x[o, k]
      %1 = loops.load %x[k, i]
      %2 = arith.mulf %0, %1 : f32
      loops.yield %2
    }
    loops.store %sum, %y[o, i]
  }
}
// CHECK-LABEL: loops.func @large {
// CHECK-NOT:     _part

// Nothing is summed for no results.
loops.func @no_results {
  %x = assign.node "x" constant because "data" : memref<1048576x8xf32>
  %y = assign.node "y" on_device because "computed by forward" : memref<0x8xf32>
  loops.nest "y" (o = 0, b = 8) {
    %sum = loops.reduce max (k = 1048576) : f32 {
      %0 = loops.load %x[k, b]
      loops.yield %0
    }
    loops.store %sum, %y[o, b]
  }
}
// CHECK-LABEL: loops.func @no_results {
// CHECK-NOT:     _part

// Few long rows: parts of each have blocks of their own, which each read much.
loops.func @few_rows {
  %x = assign.node "x" constant because "data" : memref<4x1048576xf32>
  %y = assign.node "y" on_device because "computed by forward" : memref<4xf32>
  loops.nest "y" (b = 4) {
    %sum = loops.reduce add (k = 1048576) : f32 {
      %0 = loops.load %x[b, k]
      loops.yield %0
    }
    loops.store %sum, %y[b]
  }
}
// CHECK-LABEL: loops.func @few_rows {
// CHECK:         loops.nest "y.partial" (k_part = 64, b = 4) {
// CHECK-NEXT:      %{{.*}} = loops.reduce add (k = 16384) : f32 {
// CHECK-NEXT:        %{{.*}} = loops.load %x[b, k + 16384*k_part]
// CHECK:         loops.nest "y" (b = 4) {
// CHECK-NEXT:      %{{.*}} = loops.reduce add (k_part = 64) : f32 {

// Rows enough are blocks enough, and short ones are read by one block in no time.
loops.func @many_rows {
  %x = assign.node "x" constant because "data" : memref<32x1048576xf32>
  %y = assign.node "y" on_device because "computed by forward" : memref<32xf32>
  loops.nest "y" (b = 32) {
    %sum = loops.reduce add (k = 1048576) : f32 {
      %0 = loops.load %x[b, k]
      loops.yield %0
    }
    loops.store %sum, %y[b]
  }
}
loops.func @short_rows {
  %x = assign.node "x" constant because "data" : memref<4x65536xf32>
  %y = assign.node "y" on_device because "computed by forward" : memref<4xf32>
  loops.nest "y" (b = 4) {
    %sum = loops.reduce add (k = 65536) : f32 {
      %0 = loops.load %x[b, k]
      loops.yield %0
    }
    loops.store %sum, %y[b]
  }
}
// CHECK-LABEL: loops.func @many_rows {
// CHECK-NOT:     _part
// CHECK-LABEL: loops.func @short_rows {
// CHECK-NOT:     _part

// Sums over rows, as in the gradient of a gain: neighbours share sectors, so there would be few blocks.
loops.func @gain {
  %x = assign.node "x" constant because "data" : memref<16384x384xf32>
  %g = assign.node "g" constant because "data" : memref<16384x384xf32>
  %y = assign.node "y" on_device because "gradient" : memref<384xf32>
  loops.nest "y" (o = 384) {
    %sum = loops.reduce add (b = 16384) : f32 {
      %0 = loops.load %g[b, o]
      %1 = loops.load %x[b, o]
      %2 = arith.mulf %0, %1 : f32
      loops.yield %2
    }
    loops.store %sum, %y[o]
  }
}
// CHECK-LABEL: loops.func @gain {
// CHECK:         loops.nest "y.partial" (b_part = 4, o = 384) {
// CHECK-NEXT:      %{{.*}} = loops.reduce add (b = 4096) : f32 {

// What few rows have is read in less time than another kernel takes.
loops.func @small_gain {
  %x = assign.node "x" constant because "data" : memref<1024x128xf32>
  %g = assign.node "g" constant because "data" : memref<1024x128xf32>
  %y = assign.node "y" on_device because "gradient" : memref<128xf32>
  loops.nest "y" (o = 128) {
    %sum = loops.reduce add (b = 1024) : f32 {
      %0 = loops.load %g[b, o]
      %1 = loops.load %x[b, o]
      %2 = arith.mulf %0, %1 : f32
      loops.yield %2
    }
    loops.store %sum, %y[o]
  }
}
// CHECK-LABEL: loops.func @small_gain {
// CHECK-NOT:     _part

// What needs the result of another reduction is computed after it, as a whole.
loops.func @after_another {
  %x = assign.node "x" constant because "data" : memref<4x1048576xf32>
  %y = assign.node "y" on_device because "computed by forward" : memref<4xf32>
  loops.nest "y" (b = 4) {
    %top = loops.reduce max (k = 1048576) : f32 {
      %0 = loops.load %x[b, k]
      loops.yield %0
    }
    %sum = loops.reduce add (j = 1048576) : f32 {
      %1 = loops.load %x[b, j]
      %2 = arith.subf %1, %top : f32
      loops.yield %2
    }
    loops.store %sum, %y[b]
  }
}
// CHECK-LABEL: loops.func @after_another {
// CHECK:         loops.nest "y.partial" (k_part = 64, b = 4) {
// CHECK-NEXT:      %{{.*}} = loops.reduce max (k = 16384) : f32 {
// CHECK:         loops.nest "y" (b = 4) {
// CHECK:           loops.reduce add (j = 1048576) : f32 {

// One tile has as many parts as there are multiprocessors, along the variable with the longest steps, too.
loops.func @one_tile {
  %x = assign.node "x" constant because "data" : memref<256x32x32x27xf32>
  %g = assign.node "g" constant because "data" : memref<256x32x32x64xf32>
  %w = assign.node "w" on_device because "gradient" : memref<64x27xf32>
  loops.nest "w" (o = 64, i = 27) {
    %sum = loops.reduce add (b = 256, h = 32, w = 32) : f32 {
      %0 = loops.load %g[b, h, w, o]
      %1 = loops.load %x[b, h, w, i]
      %2 = arith.mulf %0, %1 : f32
      loops.yield %2
    }
    loops.store %sum, %w[o, i]
  }
}
// CHECK-LABEL: loops.func @one_tile {
// CHECK:         loops.nest "w.partial" (b_part = 128, o = 64, i = 27) {
// CHECK-NEXT:      %{{.*}} = loops.reduce add (b = 2, h = 32, w = 32) : f32 {
