// RUN: ocannl-opt %s --split-input-file -p tile-and-fuse | filecheck %s

// Softmax: each row is read once. What only the group touches has room for one row.
// CHECK-LABEL: loops.func @softmax
// CHECK-NOT:     assign.node "e"
// CHECK:         loops.group "m .. y" (b = 4096) {
// CHECK-NEXT:      %m = assign.node "m" local because "intermediate value" : memref<1xf32>
// CHECK-NEXT:      %e = assign.node "e" local because "intermediate value" : memref<1x1024xf32>
// CHECK-NEXT:      %s = assign.node "s" local because "intermediate value" : memref<1xf32>
// CHECK-NEXT:      loops.nest "m" () {
// CHECK-NEXT:        %{{.*}} = loops.reduce max (k = 1024) : f32 {
// CHECK-NEXT:          %{{.*}} = loops.load %x[b, k]
// CHECK:             loops.store %{{.*}}, %m[0]
// CHECK:           loops.nest "e" (j = 1024) {
// CHECK-NEXT:        %{{.*}} = loops.load %x[b, j]
// CHECK-NEXT:        %{{.*}} = loops.load %m[0]
// CHECK:             loops.store %{{.*}}, %e[0, j]
// CHECK:           loops.nest "s" () {
// CHECK:           loops.nest "y" (o = 1024) {
// CHECK:             loops.store %{{.*}}, %y[b, o]
loops.func @softmax {
  %x = assign.node "x" on_device : memref<4096x1024xf32>
  %m = assign.node "m" local because "intermediate value" : memref<4096xf32>
  %e = assign.node "e" local because "intermediate value" : memref<4096x1024xf32>
  %s = assign.node "s" local because "intermediate value" : memref<4096xf32>
  %y = assign.node "y" on_device : memref<4096x1024xf32>
  loops.nest "m" (b = 4096) {
    %0 = loops.reduce max (k = 1024) : f32 {
      %1 = loops.load %x[b, k]
      loops.yield %1
    }
    loops.store %0, %m[b]
  }
  loops.nest "e" (i = 4096, j = 1024) {
    %0 = loops.load %x[i, j]
    %1 = loops.load %m[i]
    %2 = arith.subf %0, %1 : f32
    %3 = math.exp %2 : f32
    loops.store %3, %e[i, j]
  }
  loops.nest "s" (b = 4096) {
    %0 = loops.reduce add (k = 1024) : f32 {
      %1 = loops.load %e[b, k]
      loops.yield %1
    }
    loops.store %0, %s[b]
  }
  loops.nest "y" (b = 4096, o = 1024) {
    %0 = loops.load %e[b, o]
    %1 = loops.load %s[b]
    %2 = arith.divf %0, %1 : f32
    loops.store %2, %y[b, o]
  }
}

// -----

// Short rows run in blocks. The sum over the rows has 16 parts, with what their additions round off, and what
// follows it is done once.
// CHECK-LABEL: loops.func @column_sums
// CHECK:         %[[PARTS:.*]] = assign.node "g.partial" local because "partial results of g" : memref<16x128xf32>
// CHECK-NEXT:    %[[ERRORS:.*]] = assign.node "g.partial errors" local because "rounded off g.partial" : memref<16x128xf32>
// CHECK:         loops.nest "g.partial reset" (b_part = 16, o = 128) {
// CHECK:         loops.group "y .. g" (b_part = 16, b_block = 64) {
// CHECK-NEXT:      loops.nest "y" (b = 16, o = 128) {
// CHECK-NEXT:        %{{.*}} = loops.load %x[b + 16*b_block + 1024*b_part, o]
// CHECK:           loops.nest "g.partial" (o = 128) {
// CHECK-NEXT:        %{{.*}} = loops.reduce add (k = 16) : f32 {
// CHECK-NEXT:          %{{.*}} = loops.load %y[16*b_block + 1024*b_part + k, o]
// CHECK:             %{{.*}} = loops.load %[[PARTS]][b_part, o]
// CHECK-NEXT:        %{{.*}} = loops.load %[[ERRORS]][b_part, o]
// CHECK-NEXT:        %{{.*}} = arith.addf
// CHECK:             loops.store %{{.*}}, %[[PARTS]][b_part, o]
// CHECK-NEXT:        loops.store %{{.*}}, %[[ERRORS]][b_part, o]
// CHECK:         loops.nest "g" (o = 128) {
// CHECK-NEXT:      %{{.*}} = loops.reduce add (b_part = 16) blocks 1 compensated : f32 {
// CHECK-NEXT:        %{{.*}} = loops.load %[[PARTS]][b_part, o]
// CHECK-NEXT:        %{{.*}} = loops.load %[[ERRORS]][b_part, o]
// CHECK:           %{{.*}} = arith.negf
// CHECK-NEXT:      loops.store %{{.*}}, %g[o]
loops.func @column_sums {
  %x = assign.node "x" on_device : memref<16384x128xf32>
  %y = assign.node "y" on_device : memref<16384x128xf32>
  %g = assign.node "g" on_device : memref<128xf32>
  loops.nest "y" (b = 16384, o = 128) {
    %0 = loops.load %x[b, o]
    %1 = arith.addf %0, %0 : f32
    loops.store %1, %y[b, o]
  }
  loops.nest "g" (o = 128) {
    %0 = loops.reduce add (k = 16384) : f32 {
      %1 = loops.load %y[k, o]
      loops.yield %1
    }
    %2 = arith.negf %0 : f32
    loops.store %2, %g[o]
  }
}

// -----

// What waits in the caches of a core until the next nest gains nothing.
// CHECK-LABEL: loops.func @small
// CHECK-NOT:     loops.group
loops.func @small {
  %x = assign.node "x" on_device : memref<256x256xf32>
  %m = assign.node "m" local because "intermediate value" : memref<256xf32>
  %y = assign.node "y" on_device : memref<256x256xf32>
  loops.nest "m" (b = 256) {
    %0 = loops.reduce max (k = 256) : f32 {
      %1 = loops.load %x[b, k]
      loops.yield %1
    }
    loops.store %0, %m[b]
  }
  loops.nest "y" (b = 256, o = 256) {
    %0 = loops.load %x[b, o]
    %1 = loops.load %m[b]
    %2 = arith.subf %0, %1 : f32
    loops.store %2, %y[b, o]
  }
}

// -----

// A row that depends on other rows waits for all of them, as does what reads a sum over the rows.
// CHECK-LABEL: loops.func @other_rows
// CHECK-NOT:     loops.group
// CHECK:         loops.nest "reversed" (b = 4096, o = 1024)
loops.func @other_rows {
  %x = assign.node "x" on_device : memref<4096x1024xf32>
  %y = assign.node "y" on_device : memref<4096x1024xf32>
  %z = assign.node "z" on_device : memref<4096x1024xf32>
  loops.nest "y" (b = 4096, o = 1024) {
    %0 = loops.load %x[b, o]
    loops.store %0, %y[b, o]
  }
  loops.nest "reversed" (b = 4096, o = 1024) {
    %0 = loops.load %y[-b + 4095, o]
    loops.store %0, %z[b, o]
  }
}

// -----

// Every row of a matrix product reads the whole matrix, which is more than the first-level cache holds.
// CHECK-LABEL: loops.func @product
// CHECK-NOT:     loops.group
loops.func @product {
  %w = assign.node "w" on_device : memref<512x512xf32>
  %x = assign.node "x" on_device : memref<4096x512xf32>
  %y = assign.node "y" local : memref<4096x512xf32>
  %z = assign.node "z" on_device : memref<4096x512xf32>
  loops.nest "y" (b = 4096, o = 512) {
    %0 = loops.reduce add (k = 512) : f32 {
      %1 = loops.load %w[o, k]
      %2 = loops.load %x[b, k]
      %3 = arith.mulf %1, %2 : f32
      loops.yield %3
    }
    loops.store %0, %y[b, o]
  }
  loops.nest "z" (b = 4096, o = 512) {
    %0 = loops.load %y[b, o]
    %1 = math.exp %0 : f32
    loops.store %1, %z[b, o]
  }
}

// -----

// Vectors lie along the channels, so that these are no row.
// CHECK-LABEL: loops.func @channels
// CHECK:         loops.group "d .. y" (b = 64) {
loops.func @channels {
  %x = assign.node "x" on_device : memref<64x28x28x6xf32>
  %m = assign.node "m" on_device : memref<64x14x14x6xf32>
  %g = assign.node "g" on_device : memref<64x14x14x6xf32>
  %d = assign.node "d" local : memref<64x28x28x6xf32>
  %y = assign.node "y" on_device : memref<64x28x28x6xf32>
  loops.nest "d" (b = 64, h = 14, i = 2, w = 14, j = 2, c = 6) {
    %0 = loops.load %m[b, h, w, c]
    %1 = loops.load %x[b, 2*h + i, 2*w + j, c]
    %2 = loops.load %g[b, h, w, c]
    %3 = arith.constant 0.0 : f32
    %4 = arith.cmpf oeq, %0, %1 : f32
    %5 = arith.select %4, %2, %3 : f32
    loops.store %5, %d[b, 2*h + i, 2*w + j, c]
  }
  loops.nest "y" (b = 64, h = 28, w = 28, c = 6) {
    %0 = loops.load %x[b, h, w, c]
    %1 = loops.load %d[b, h, w, c]
    %2 = arith.constant 0.0 : f32
    %3 = arith.cmpf ogt, %0, %2 : f32
    %4 = arith.select %3, %1, %2 : f32
    loops.store %4, %y[b, h, w, c]
  }
}

// -----

// A nest that could come before a group waits for its own: both sums of %y are added up in one pass.
// CHECK-LABEL: loops.func @other_sums
// CHECK:         loops.group "m" (b_part = 16, b_block = 32)
// CHECK:         loops.group "s .. t" (b_part = 16, b_block = 32)
// CHECK-NEXT:      loops.nest "s.partial" (o = 1024)
// CHECK:           loops.nest "t.partial" (o = 1024)
// CHECK-NOT:     loops.group
loops.func @other_sums {
  %x = assign.node "x" constant because "data" : memref<4096x1024xf32>
  %y = assign.node "y" constant because "data" : memref<4096x1024xf32>
  %m = assign.node "m" on_device because "computed by forward" : memref<1024xf32>
  %s = assign.node "s" on_device because "computed by forward" : memref<1024xf32>
  %t = assign.node "t" on_device because "computed by forward" : memref<1024xf32>
  loops.nest "m" (o = 1024) {
    %0 = loops.reduce add (b = 4096) : f32 {
      %1 = loops.load %x[b, o]
      loops.yield %1
    }
    loops.store %0, %m[o]
  }
  loops.nest "s" (o = 1024) {
    %2 = loops.load %m[o]
    %3 = loops.reduce add (b = 4096) : f32 {
      %4 = loops.load %y[b, o]
      %5 = arith.mulf %4, %2 : f32
      loops.yield %5
    }
    loops.store %3, %s[o]
  }
  loops.nest "t" (o = 1024) {
    %6 = loops.reduce add (b = 4096) : f32 {
      %7 = loops.load %y[b, o]
      loops.yield %7
    }
    loops.store %6, %t[o]
  }
}

// -----

// What adds to sums over the rows adds up 8 rows before it loads and stores the sums.
// CHECK-LABEL: loops.func @two_sums
// CHECK:         loops.group "s .. t" (b_part = 8, b_block = 16) {
// CHECK-NEXT:      loops.nest "s.partial" (o = 4096) {
// CHECK-NEXT:        %{{.*}} = loops.reduce add (b = 8) : f32 {
// CHECK-NEXT:          %{{.*}} = loops.load %x[b + 8*b_block + 128*b_part, o]
// CHECK:           loops.nest "t.partial" (o = 4096) {
// CHECK-NEXT:        %{{.*}} = loops.reduce add (b = 8) : f32 {
// CHECK-NEXT:          %{{.*}} = loops.load %x[b + 8*b_block + 128*b_part, o]
loops.func @two_sums {
  %x = assign.node "x" constant because "data" : memref<1024x4096xf32>
  %s = assign.node "s" on_device because "computed by forward" : memref<4096xf32>
  %t = assign.node "t" on_device because "computed by forward" : memref<4096xf32>
  loops.nest "s" (o = 4096) {
    %0 = loops.reduce add (b = 1024) : f32 {
      %1 = loops.load %x[b, o]
      %2 = arith.mulf %1, %1 : f32
      loops.yield %2
    }
    loops.store %0, %s[o]
  }
  loops.nest "t" (o = 4096) {
    %3 = loops.reduce add (b = 1024) : f32 {
      %4 = loops.load %x[b, o]
      loops.yield %4
    }
    loops.store %3, %t[o]
  }
}

// -----

// Rows that are too wide for that are read once for each sum: partial results would be loaded and stored for each of them.
// CHECK-LABEL: loops.func @wide_sums
// CHECK:         loops.group "s" (b_block = 128) {
// CHECK-NEXT:      loops.nest "s.partial" (o = 40960) {
// CHECK:         loops.group "t" (b_block = 128) {
// CHECK-NEXT:      loops.nest "t.partial" (o = 40960) {
loops.func @wide_sums {
  %x = assign.node "x" constant because "data" : memref<1024x40960xf32>
  %s = assign.node "s" on_device because "computed by forward" : memref<40960xf32>
  %t = assign.node "t" on_device because "computed by forward" : memref<40960xf32>
  loops.nest "s" (o = 40960) {
    %0 = loops.reduce add (b = 1024) : f32 {
      %1 = loops.load %x[b, o]
      %2 = arith.mulf %1, %1 : f32
      loops.yield %2
    }
    loops.store %0, %s[o]
  }
  loops.nest "t" (o = 40960) {
    %3 = loops.reduce add (b = 1024) : f32 {
      %4 = loops.load %x[b, o]
      loops.yield %4
    }
    loops.store %3, %t[o]
  }
}

// -----

// The partial results lie as what they are sums of, whatever the layout of the node that they go to.
// CHECK-LABEL: loops.func @sums_in_another_layout
// CHECK:         assign.node "g.partial" local because "partial results of g" : memref<16x9x128xf32>
// CHECK:         loops.nest "g" (o = 128, w = 9) {
// CHECK-NEXT:      %{{.*}} = loops.reduce add (b_part = 16) blocks 1 compensated : f32 {
// CHECK-NEXT:        %{{.*}} = loops.load %{{.*}}[b_part, w, o]
loops.func @sums_in_another_layout {
  %x = assign.node "x" on_device : memref<4096x9x128xf32>
  %y = assign.node "y" on_device : memref<4096x9x128xf32>
  %g = assign.node "g" on_device : memref<128x9xf32>
  loops.nest "y" (b = 4096, w = 9, o = 128) {
    %0 = loops.load %x[b, w, o]
    %1 = arith.addf %0, %0 : f32
    loops.store %1, %y[b, w, o]
  }
  loops.nest "g" (o = 128, w = 9) {
    %0 = loops.reduce add (k = 4096) : f32 {
      %1 = loops.load %y[k, w, o]
      loops.yield %1
    }
    loops.store %0, %g[o, w]
  }
}

// -----

// Scores of a block of rows live inside the group, and so do those that its second nest needs; the contraction over
// the rows is added up, as these are not the outermost.
// CHECK-LABEL: loops.func @scores
// CHECK:         loops.nest "k_grad.partial reset" (b = 8, h = 4, t = 512, d = 64)
// CHECK:         loops.group "g .. k_grad" (b = 8, h = 4, s_block = {{.*}}) {
// CHECK-DAG:       %g = assign.node "g" local
// CHECK-DAG:       %z = assign.node "z" local
// CHECK:           loops.nest "g" (s = {{.*}}, t = 512)
// CHECK:           loops.nest "p .. z" (s = {{.*}}, t = 512)
// CHECK:           loops.nest "k_grad.partial" (t = 512, d = 64)
// CHECK:         loops.nest "k_grad" (b = 8, t = 512, h = 4, d = 64)
loops.func @scores {
  %q = assign.node "q" constant because "data" : memref<8x512x4x64xf32>
  %k = assign.node "k" constant because "data" : memref<8x512x4x64xf32>
  %g = assign.node "g" local because "intermediate value" : memref<8x512x4x512xf32>
  %p = assign.node "p" local because "intermediate value" : memref<8x512x4x512xf32>
  %z = assign.node "z" local because "intermediate value" : memref<8x512x4x512xf32>
  %k_grad = assign.node "k_grad" on_device because "gradient" : memref<8x512x4x64xf32>
  loops.nest "g" (b = 8, s = 512, h = 4, t = 512) {
    %0 = loops.reduce add (d = 64) : f32 {
      %1 = loops.load %q[b, s, h, d]
      %2 = loops.load %k[b, t, h, d]
      %3 = arith.mulf %1, %2 : f32
      loops.yield %3
    }
    loops.store %0, %g[b, s, h, t]
  }
  loops.nest "p" (b = 8, s = 512, h = 4, t = 512) {
    %0 = loops.reduce add (d = 64) : f32 {
      %1 = loops.load %k[b, s, h, d]
      %2 = loops.load %q[b, t, h, d]
      %3 = arith.mulf %1, %2 : f32
      loops.yield %3
    }
    loops.store %0, %p[b, s, h, t]
  }
  loops.nest "z" (b = 8, s = 512, h = 4, t = 512) {
    %0 = loops.load %g[b, s, h, t]
    %1 = loops.load %p[b, s, h, t]
    %2 = arith.mulf %0, %1 : f32
    loops.store %2, %z[b, s, h, t]
  }
  loops.nest "k_grad" (b = 8, t = 512, h = 4, d = 64) {
    %0 = loops.reduce add (s = 512) : f32 {
      %1 = loops.load %z[b, s, h, t]
      %2 = loops.load %q[b, s, h, d]
      %3 = arith.mulf %1, %2 : f32
      loops.yield %3
    }
    loops.store %0, %k_grad[b, t, h, d]
  }
}

// -----

// `z` reads `e` again, but needs `t`, which needs `s`: both join, though `t` alone would save nothing.
// CHECK-LABEL: loops.func @together
// CHECK:         loops.group "e .. z" (b = 4096) {
// CHECK:           %e = assign.node "e" local because "intermediate value" : memref<1x1024xf32>
// CHECK:           loops.nest "e" (o = 1024) {
// CHECK:           loops.nest "s .. t" () {
// CHECK:           loops.nest "z" (o = 1024) {
// CHECK-NOT:     loops.nest
loops.func @together {
  %x = assign.node "x" constant because "data" : memref<4096x1024xf32>
  %g = assign.node "g" constant because "data" : memref<4096x1024xf32>
  %e = assign.node "e" local because "intermediate value" : memref<4096x1024xf32>
  %s = assign.node "s" local because "intermediate value" : memref<4096xf32>
  %t = assign.node "t" local because "intermediate value" : memref<4096xf32>
  %z = assign.node "z" on_device because "computed by forward" : memref<4096x1024xf32>
  loops.nest "e" (b = 4096, o = 1024) {
    %0 = loops.load %x[b, o]
    %1 = math.exp %0 : f32
    loops.store %1, %e[b, o]
  }
  loops.nest "s" (b = 4096) {
    %0 = loops.reduce add (o = 1024) : f32 {
      %1 = loops.load %e[b, o]
      loops.yield %1
    }
    loops.store %0, %s[b]
  }
  loops.nest "t" (b = 4096) {
    %0 = loops.reduce add (o = 1024) : f32 {
      %1 = loops.load %g[b, o]
      loops.yield %1
    }
    %2 = loops.load %s[b]
    %3 = arith.divf %0, %2 : f32
    loops.store %3, %t[b]
  }
  loops.nest "z" (b = 4096, o = 1024) {
    %0 = loops.load %g[b, o]
    %1 = loops.load %t[b]
    %2 = loops.load %e[b, -o + 1023]
    %3 = math.fma %1, %2, %0 : f32
    loops.store %3, %z[b, o]
  }
}

// -----

// A nest that sums over rows by itself adds some of them before it goes through the partial results again.
// CHECK-LABEL: loops.func @vector_by_matrix
// CHECK:         loops.group "y" (k_part = 16, k_block = 6) {
// CHECK-NEXT:      loops.nest "y.partial" (j = 3072) {
// CHECK-NEXT:        %{{.*}} = loops.reduce add (k = 8) : f32 {
// CHECK-NEXT:          %{{.*}} = loops.load %x[k + 8*k_block + 48*k_part]
// CHECK-NEXT:          %{{.*}} = loops.load %w[k + 8*k_block + 48*k_part, j]
loops.func @vector_by_matrix {
  %x = assign.node "x" on_device : memref<768xf32>
  %w = assign.node "w" on_device : memref<768x3072xf32>
  %y = assign.node "y" on_device : memref<3072xf32>
  loops.nest "y" (j = 3072) {
    %0 = loops.reduce add (k = 768) : f32 {
      %1 = loops.load %x[k]
      %2 = loops.load %w[k, j]
      %3 = arith.mulf %1, %2 : f32
      loops.yield %3
    }
    loops.store %0, %y[j]
  }
}

// -----

// Blocks that many parts share need no errors: each product goes through few additions.
// CHECK-LABEL: loops.func @vector_by_long_matrix
// CHECK-NOT:     errors
// CHECK:         loops.group "y" (k_part = 16, k_block = 24) {
// CHECK-NOT:     compensated
loops.func @vector_by_long_matrix {
  %x = assign.node "x" on_device : memref<3072xf32>
  %w = assign.node "w" on_device : memref<3072x768xf32>
  %y = assign.node "y" on_device : memref<768xf32>
  loops.nest "y" (j = 768) {
    %0 = loops.reduce add (k = 3072) : f32 {
      %1 = loops.load %x[k]
      %2 = loops.load %w[k, j]
      %3 = arith.mulf %1, %2 : f32
      loops.yield %3
    }
    loops.store %0, %y[j]
  }
}

// -----

// A sum over two axes of each row is not split: its parts would be read in another order than they lie in.
// CHECK-LABEL: loops.func @vector_of_heads
// CHECK-NOT:     loops.group
// CHECK:         %{{.*}} = loops.reduce add (h = 12, d = 64) : f32 {
loops.func @vector_of_heads {
  %x = assign.node "x" on_device : memref<12x64xf32>
  %w = assign.node "w" on_device : memref<768x12x64xf32>
  %y = assign.node "y" on_device : memref<768xf32>
  loops.nest "y" (o = 768) {
    %0 = loops.reduce add (h = 12, d = 64) : f32 {
      %1 = loops.load %x[h, d]
      %2 = loops.load %w[o, h, d]
      %3 = arith.mulf %1, %2 : f32
      loops.yield %3
    }
    loops.store %0, %y[o]
  }
}

// -----

// One position of a cache is written, and all of it is read: no more than it has, which stays in a cache of the core.
// CHECK-LABEL: loops.func @one_position
// CHECK-NOT:     loops.group
// CHECK:         loops.nest "scores"
loops.func @one_position {
  %at = assign.node "at" on_device : memref<i32>
  %q = assign.node "q" on_device : memref<12x64xf32>
  %w = assign.node "w" on_device : memref<12x64x768xf32>
  %x = assign.node "x" on_device : memref<768xf32>
  %k = assign.node "k" local : memref<12x64xf32>
  %keys = assign.node "keys" on_device : memref<64x12x64xf32>
  %s = assign.node "s" on_device : memref<12x64xf32>
  loops.nest "k" (h = 12, d = 64) {
    %0 = loops.reduce add (i = 768) : f32 {
      %1 = loops.load %w[h, d, i]
      %2 = loops.load %x[i]
      %3 = arith.mulf %1, %2 : f32
      loops.yield %3
    }
    loops.store %0, %k[h, d]
  }
  loops.nest "keys" (h = 12, d = 64) {
    %0 = loops.load %at[]
    %p, %inside = loops.position %0 below 64
    %1 = loops.load %k[h, d]
    loops.store %1, %keys[%p, h, d]
  }
  loops.nest "scores" (h = 12, t = 64) {
    %0 = loops.reduce add (d = 64) : f32 {
      %1 = loops.load %keys[t, h, d]
      %2 = loops.load %q[h, d]
      %3 = arith.mulf %1, %2 : f32
      loops.yield %3
    }
    loops.store %0, %s[h, t]
  }
}

// -----

// Windows that overlap touch no more than there is, which reading them in another order would not make up for.
// CHECK-LABEL: loops.func @windows
// CHECK-NOT:     loops.group
// CHECK:         %{{.*}} = loops.reduce add (kh = 5, kw = 5) : f32 {
loops.func @windows {
  %x = assign.node "x" on_device : memref<116x116x64xf32>
  %y = assign.node "y" on_device : memref<112x112x64xf32>
  loops.nest "y" (oh = 112, ow = 112, o = 64) {
    %0 = loops.reduce add (kh = 5, kw = 5) : f32 {
      %1 = loops.load %x[-kh + oh + 4, -kw + ow + 4, o]
      loops.yield %1
    }
    loops.store %0, %y[oh, ow, o]
  }
}


// -----

// An image too large for a core's own cache, of which a mean is wanted first: its share of the last cache has it.
// CHECK-LABEL: loops.func @large_rows
// CHECK:         loops.group "mean .. y" (b = 16) {
loops.func @large_rows {
  %x = assign.node "x" on_device : memref<16x3136x64xf32>
  %mean = assign.node "mean" local : memref<16x64xf32>
  %y = assign.node "y" on_device : memref<16x3136x64xf32>
  loops.nest "mean" (b = 16, o = 64) {
    %0 = loops.reduce add (i = 3136) : f32 {
      %1 = loops.load %x[b, i, o]
      loops.yield %1
    }
    loops.store %0, %mean[b, o]
  }
  loops.nest "y" (b = 16, i = 3136, o = 64) {
    %0 = loops.load %x[b, i, o]
    %1 = loops.load %mean[b, o]
    %2 = arith.subf %0, %1 : f32
    loops.store %2, %y[b, i, o]
  }
}

// -----

// Nothing here needs a whole image, so that rows of it, which stay nearer, are taken alone.
// CHECK-LABEL: loops.func @no_sum_of_rows
// CHECK-NOT:     loops.group
// CHECK:         loops.nest "y"
loops.func @no_sum_of_rows {
  %x = assign.node "x" on_device : memref<16x3136x64xf32>
  %m = assign.node "m" on_device : memref<16x3136x64xf32>
  %y = assign.node "y" on_device : memref<16x3136x64xf32>
  loops.nest "m" (b = 16, i = 3136, o = 64) {
    %0 = loops.load %x[b, i, o]
    %1 = arith.addf %0, %0 : f32
    loops.store %1, %m[b, i, o]
  }
  loops.nest "y" (b = 16, i = 3134, o = 64) {
    %0 = loops.load %m[b, i + 2, o]
    %1 = arith.mulf %0, %0 : f32
    loops.store %1, %y[b, i, o]
  }
}

// -----

// A scatter may come to one cell again along `o`, but in each row to cells of that row alone.
// CHECK-LABEL: loops.func @scattered_rows
// CHECK:         loops.group "sums .. y" (b = 2048) {
// CHECK:           loops.nest "sums scatter" (o = 64, c = 64) {
// CHECK:             loops.store %{{.*}}, %sums[0, %{{.*}}, c]
loops.func @scattered_rows {
  %cells = assign.node "cells" on_device : memref<64xi32>
  %x = assign.node "x" on_device : memref<2048x64x64xf32>
  %sums = assign.node "sums" local : memref<2048x32x64xf32>
  %y = assign.node "y" on_device : memref<2048x32x64xf32>
  loops.nest "sums" (b = 2048, v = 32, c = 64) {
    %0 = arith.constant 0.000000e+00 : f32
    loops.store %0, %sums[b, v, c]
  }
  loops.nest "sums scatter" (o = 64, b = 2048, c = 64) {
    %0 = loops.load %cells[o]
    %1, %2 = loops.position %0 below 32
    %3 = loops.load %x[b, o, c]
    %4 = loops.load %sums[b, %1, c]
    %5 = arith.addf %4, %3 : f32
    %6 = arith.select %2, %5, %4 : f32
    loops.store %6, %sums[b, %1, c]
  }
  loops.nest "y" (b = 2048, v = 32, c = 64) {
    %0 = loops.load %sums[b, v, c]
    %1 = arith.addf %0, %0 : f32
    loops.store %1, %y[b, v, c]
  }
}

// -----

// Here `o` would be the row, along which a cell may be met again.
// CHECK-LABEL: loops.func @one_array
// CHECK-NOT:     loops.group
// CHECK:         loops.nest "sums scatter" (o = 2048, c = 64)
loops.func @one_array {
  %cells = assign.node "cells" on_device : memref<2048xi32>
  %x = assign.node "x" on_device : memref<2048x64xf32>
  %e = assign.node "e" local : memref<2048x1024xf32>
  %sums = assign.node "sums" on_device : memref<32x1024xf32>
  loops.nest "e" (o = 2048, c = 1024) {
    %0 = loops.load %x[o, 0]
    loops.store %0, %e[o, c]
  }
  loops.nest "sums scatter" (o = 2048, c = 64) {
    %0 = loops.load %cells[o]
    %1, %2 = loops.position %0 below 32
    %3 = loops.load %e[o, c]
    %4 = loops.load %sums[%1, c]
    %5 = arith.addf %4, %3 : f32
    %6 = arith.select %2, %5, %4 : f32
    loops.store %6, %sums[%1, c]
  }
}

// -----

// What comes between the first nest and the last joins with it, and so does what only that has to do with.
// CHECK-LABEL: loops.func @padded
// CHECK:         loops.group "e .. y" (b = 4096) {
// CHECK:           loops.nest "e" (j = 1024)
// CHECK:           loops.nest "t reset" (k = 4)
// CHECK:           loops.nest "t" ()
// CHECK:           loops.nest "y" (j = 1024)
loops.func @padded {
  %x = assign.node "x" on_device : memref<4096x1024xf32>
  %e = assign.node "e" local because "intermediate value" : memref<4096x1024xf32>
  %s = assign.node "s" local because "intermediate value" : memref<4096xf32>
  %t = assign.node "t" local because "intermediate value" : memref<4096x4xf32>
  %y = assign.node "y" on_device : memref<4096x1024xf32>
  loops.nest "e" (b = 4096, j = 1024) {
    %0 = loops.load %x[b, j]
    %1 = math.exp %0 : f32
    loops.store %1, %e[b, j]
  }
  loops.nest "s" (b = 4096) {
    %0 = loops.reduce add (k = 1024) : f32 {
      %1 = loops.load %e[b, k]
      loops.yield %1
    }
    loops.store %0, %s[b]
  }
  loops.nest "t reset" (i = 4096, k = 4) {
    %0 = arith.constant 0.0 : f32
    loops.store %0, %t[i, k]
  }
  loops.nest "t" (b = 4096) {
    %0 = loops.load %s[b]
    loops.store %0, %t[b, 1]
  }
  loops.nest "y" (b = 4096, j = 1024) {
    %0 = loops.load %e[b, j]
    %1 = loops.load %t[b, 1]
    %2 = arith.divf %0, %1 : f32
    loops.store %2, %y[b, j]
  }
}
