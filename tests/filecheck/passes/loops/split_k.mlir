// RUN: ocannl-opt %s -p split-k | filecheck %s
// RUN: ocannl-opt %s -p 'split-k{tensor_cores=false}' | filecheck %s --check-prefix WARPS

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

// On tensor cores few parts suffice, as they are stored in f32.
loops.func @gradient_of_halves {
  %x = assign.node "x" constant because "data" : memref<8x1024x768xbf16>
  %g = assign.node "g" constant because "data" : memref<8x1024x768xbf16>
  %w = assign.node "w" on_device because "gradient" : memref<768x768xf32>
  loops.nest "w" (o = 768, i = 768) {
    %sum = loops.reduce add (b = 8, s = 1024) : f32 {
      %0 = loops.load %g[b, s, o]
      %1 = arith.extf %0 : bf16 to f32
      %2 = loops.load %x[b, s, i]
      %3 = arith.extf %2 : bf16 to f32
      %4 = arith.mulf %1, %3 : f32
      loops.yield %4
    }
    loops.store %sum, %w[o, i]
  }
}
// CHECK-LABEL:  loops.func @gradient_of_halves {
// CHECK:          loops.nest "w.partial" (b_part = 4, o = 768, i = 768) {
// WARPS-LABEL:  loops.func @gradient_of_halves {
// WARPS:          loops.nest "w.partial" (b_part = 8, o = 768, i = 768) {

// A long step of an optimizer follows in a nest of its own, though parts would not pay.
loops.func @step_of_halves {
  %x = assign.node "x" constant because "data" : memref<8x1024x768xbf16>
  %g = assign.node "g" constant because "data" : memref<8x1024x3072xbf16>
  %m = assign.node "m" on_device because "state" : memref<3072x768xf32>
  loops.nest "m" (o = 3072, i = 768) {
    %sum = loops.reduce add (b = 8, s = 1024) : f32 {
      %0 = loops.load %g[b, s, o]
      %1 = arith.extf %0 : bf16 to f32
      %2 = loops.load %x[b, s, i]
      %3 = arith.extf %2 : bf16 to f32
      %4 = arith.mulf %1, %3 : f32
      loops.yield %4
    }
    %old = loops.load %m[o, i]
    %a0 = arith.mulf %old, %sum : f32
    %a1 = arith.mulf %a0, %sum : f32
    %a2 = arith.mulf %a1, %sum : f32
    %a3 = arith.mulf %a2, %sum : f32
    %a4 = arith.mulf %a3, %sum : f32
    %a5 = arith.mulf %a4, %sum : f32
    %a6 = arith.mulf %a5, %sum : f32
    %a7 = arith.mulf %a6, %sum : f32
    %a8 = arith.mulf %a7, %sum : f32
    %a9 = arith.mulf %a8, %sum : f32
    %a10 = arith.mulf %a9, %sum : f32
    %a11 = arith.mulf %a10, %sum : f32
    %a12 = arith.mulf %a11, %sum : f32
    %a13 = arith.mulf %a12, %sum : f32
    %a14 = arith.mulf %a13, %sum : f32
    %a15 = arith.mulf %a14, %sum : f32
    %a16 = arith.mulf %a15, %sum : f32
    %a17 = arith.mulf %a16, %sum : f32
    %a18 = arith.mulf %a17, %sum : f32
    %a19 = arith.mulf %a18, %sum : f32
    %a20 = arith.mulf %a19, %sum : f32
    %a21 = arith.mulf %a20, %sum : f32
    %a22 = arith.mulf %a21, %sum : f32
    %a23 = arith.mulf %a22, %sum : f32
    %a24 = arith.mulf %a23, %sum : f32
    loops.store %a24, %m[o, i]
  }
}
// CHECK-LABEL: loops.func @step_of_halves {
// CHECK:         %[[P:.*]] = assign.node "m.partial" local because "partial results of m" : memref<3072x768xf32>
// CHECK-NEXT:    loops.nest "m.partial" (o = 3072, i = 768) {
// CHECK-NEXT:      %[[S:.*]] = loops.reduce add (b = 8, s = 1024) : f32 {
// CHECK:           loops.store %[[S]], %[[P]][o, i]
// CHECK-NEXT:    }
// CHECK-NEXT:    loops.nest "m" (o = 3072, i = 768) {
// CHECK-NEXT:      %{{.*}} = loops.load %[[P]][o, i]

// A node may be declared after steps that do not use it.
loops.func @late {
  %x = assign.node "x" constant because "data" : memref<1048576xf32>
  %y = assign.node "y" on_device because "computed by forward" : memref<f32>
  loops.nest "y" () {
    %sum = loops.reduce add (k = 1048576) : f32 {
      %0 = loops.load %x[k]
      loops.yield %0
    }
    loops.store %sum, %y[]
  }
  %z = assign.node "z" on_device because "result" : memref<3xf32>
  loops.nest "z" (i = 3) {
    %0 = loops.load %y[]
    loops.store %0, %z[i]
  }
}

// CHECK-LABEL: loops.func @late {
// CHECK:         %y = assign.node
// CHECK-NEXT:    assign.node "y.partial"
// CHECK-NEXT:    loops.nest "y.partial"
