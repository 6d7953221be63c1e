// RUN: ocannl-opt %s -p schedule | filecheck %s
// RUN: ocannl-opt %s --cpu x86-64-v3 -p schedule | filecheck %s --check-prefix=AVX2
// RUN: ocannl-opt %s -p 'schedule{cores=1}' | filecheck %s --check-prefix=ONE

// One core has nothing to share.
// ONE-NOT: parallel

// The weights are contiguous along the reduction: a copy in panels of 32 outputs makes them fit the lanes. It is
// large, so that only one panel is there at a time.
loops.func @forward {
  %w = assign.node "w" on_device : memref<512x784xf32>
  %x = assign.node "x" on_device : memref<128x784xf32>
  %y = assign.node "y" on_device : memref<128x512xf32>
  loops.nest "y" (b = 128, o = 512) {
    %sum = loops.reduce add (i = 784) : f32 {
      %wv = loops.load %w[o, i]
      %xv = loops.load %x[b, i]
      %p = arith.mulf %wv, %xv : f32
      loops.yield %p
    }
    loops.store %sum, %y[b, o]
  }
}
// CHECK-LABEL: loops.func @forward
// CHECK: loops.group "y" (o_panel = 16) schedule <parallel = (o_panel : 1)> {
// CHECK-NEXT: %[[PACKED:.*]] = assign.node "w.packed" local because "contiguous copy for y" : memref<784x32xf32>
// CHECK-NEXT: loops.nest "w.packed" (i = 784, o = 32) schedule <order = (i, o), rows = {{.}} : 16, lanes = {{.}} : 16> {
// CHECK-NEXT: %[[W:.*]] = loops.load %w[o + 32*o_panel, i]
// CHECK-NEXT: loops.store %[[W]], %[[PACKED]][i, o]
// CHECK: loops.nest "y" (b = 128, o = 32) schedule <order = (o, b), rows = b : 8, lanes = o : 32> {
// CHECK: loops.load %[[PACKED]][i, o]
// CHECK: loops.load %x[b, i]
// CHECK: loops.store %{{.*}}, %y[b, o + 32*o_panel]

// AVX2-LABEL: loops.func @forward
// AVX2: loops.nest "y" {{.*}} schedule <order = (o, b), rows = b : 6, lanes = o : 16> {

// Both gradients read their operands contiguously along the lanes as they are. That of the weights reads the rows of
// its tile from another page at each step, but for a copy.
loops.func @backward {
  %w = assign.node "w" on_device : memref<512x784xf32>
  %g = assign.node "g" on_device : memref<128x512xf32>
  %x = assign.node "x" on_device : memref<128x784xf32>
  %dx = assign.node "dx" on_device : memref<128x784xf32>
  %dw = assign.node "dw" on_device : memref<512x784xf32>
  loops.nest "dx" (b = 128, i = 784) {
    %sum = loops.reduce add (o = 512) : f32 {
      %gv = loops.load %g[b, o]
      %wv = loops.load %w[o, i]
      %p = arith.mulf %gv, %wv : f32
      loops.yield %p
    }
    loops.store %sum, %dx[b, i]
  }
  loops.nest "dw" (o = 512, i = 784) {
    %sum = loops.reduce add (b = 128) : f32 {
      %gv = loops.load %g[b, o]
      %xv = loops.load %x[b, i]
      %p = arith.mulf %gv, %xv : f32
      loops.yield %p
    }
    loops.store %sum, %dw[o, i]
  }
}
// CHECK-LABEL: loops.func @backward
// CHECK: loops.group "dx" (i_panel = 24)
// CHECK: loops.nest "dx" (b = 128, i = 32) schedule <order = (i, b), rows = b : 8, lanes = i : 32> {
// CHECK: loops.nest "dx remainder" (b = 128, i = 16)
// CHECK: loops.group "dw" (i_panel = 24)
// CHECK: loops.nest "dw" (o = 512, i = 32) schedule <order = (i, o), rows = o : 12, lanes = i : 32> {
// CHECK: loops.nest "dw remainder" (o = 512, i = 16)

// A longer sum reads its rows from as many pages: they are packed for whole tiles.
loops.func @weight_gradient {
  %g = assign.node "g" on_device : memref<256x512xf32>
  %x = assign.node "x" on_device : memref<256x768xf32>
  %dw = assign.node "dw" on_device : memref<512x768xf32>
  loops.nest "dw" (o = 512, i = 768) {
    %sum = loops.reduce add (b = 256) : f32 {
      %gv = loops.load %g[b, o]
      %xv = loops.load %x[b, i]
      %p = arith.mulf %gv, %xv : f32
      loops.yield %p
    }
    loops.store %sum, %dw[o, i]
  }
}
// CHECK-LABEL: loops.func @weight_gradient
// CHECK: loops.nest "g.packed" (o_panel = 64, b = 256, o = 8)
// CHECK: loops.nest "dw" (o_panel = 64, o = 8, i = 32) schedule <order = (i, o_panel, o), rows = o : 8, lanes = i : 32> {
// CHECK: loops.load %{{.*}}[o_panel, b, o]

// Rows of 4 kilobytes share the places of a cache: the panels stand elsewhere.
loops.func @conflict {
  %a = assign.node "a" on_device : memref<1024x1024xf32>
  %b = assign.node "b" on_device : memref<1024x1024xf32>
  %c = assign.node "c" on_device : memref<1024x1024xf32>
  loops.nest "c" (i = 1024, j = 1024) {
    %sum = loops.reduce add (k = 1024) : f32 {
      %av = loops.load %a[i, k]
      %bv = loops.load %b[k, j]
      %p = arith.mulf %av, %bv : f32
      loops.yield %p
    }
    loops.store %sum, %c[i, j]
  }
}
// CHECK-LABEL: loops.func @conflict
// CHECK: loops.nest "b.packed" (j_panel = 32, k = 1024, j = 32)
// CHECK: loops.nest "c" (i = 1024, j_panel = 32, j = 32)

// Panels of 256 KiB are copied before, those of the smaller operand, and so are panels fewer than cores, and what the whole group could hold.
loops.func @copied_before {
  %a = assign.node "a" on_device : memref<128x2048xf32>
  %b = assign.node "b" on_device : memref<512x2048xf32>
  %c = assign.node "c" on_device : memref<128x512xf32>
  %d = assign.node "d" on_device : memref<1024x784xf32>
  %e = assign.node "e" on_device : memref<96x784xf32>
  %f = assign.node "f" on_device : memref<1024x96xf32>
  %g = assign.node "g" on_device : memref<1024x32xf32>
  %h = assign.node "h" on_device : memref<512x32xf32>
  %p = assign.node "p" on_device : memref<1024x512xf32>
  loops.nest "c" (i = 128, j = 512) {
    %sum = loops.reduce add (k = 2048) : f32 {
      %x = loops.load %a[i, k]
      %y = loops.load %b[j, k]
      %z = arith.mulf %x, %y : f32
      loops.yield %z
    }
    loops.store %sum, %c[i, j]
  }
  loops.nest "f" (i = 1024, j = 96) {
    %sum = loops.reduce add (k = 784) : f32 {
      %x = loops.load %d[i, k]
      %y = loops.load %e[j, k]
      %z = arith.mulf %x, %y : f32
      loops.yield %z
    }
    loops.store %sum, %f[i, j]
  }
  loops.nest "p" (i = 1024, j = 512) {
    %sum = loops.reduce add (k = 32) : f32 {
      %x = loops.load %g[i, k]
      %y = loops.load %h[j, k]
      %z = arith.mulf %x, %y : f32
      loops.yield %z
    }
    loops.store %sum, %p[i, j]
  }
}
// CHECK-LABEL: loops.func @copied_before
// CHECK-NOT: loops.group
// CHECK: loops.nest "a.packed" (i_panel = 4, k = 2048, i = 32)
// CHECK: loops.nest "e.packed" (j_panel = 3, k = 784, j = 32)
// CHECK: loops.nest "h.packed" (j_panel = 16, k = 32, j = 32)

// A few outputs: dot products along the contiguous variable.
loops.func @dots {
  %w = assign.node "w" on_device : memref<10x512xf32>
  %x = assign.node "x" on_device : memref<128x512xf32>
  %y = assign.node "y" on_device : memref<128x10xf32>
  loops.nest "y" (b = 128, o = 10) {
    %sum = loops.reduce add (i = 512) : f32 {
      %wv = loops.load %w[o, i]
      %xv = loops.load %x[b, i]
      %p = arith.mulf %wv, %xv : f32
      loops.yield %p
    }
    loops.store %sum, %y[b, o]
  }
}
// CHECK-LABEL: loops.func @dots
// CHECK: loops.nest "y" (b = 128, o = 10) schedule <order = (b, o), parallel = (b : 16), rows = o : 10, lanes = i : 16> {

// A product with a vector reuses no row of the matrix: tiles have eight of them, which fit in a set of the cache.
loops.func @product_with_a_vector {
  %w = assign.node "w" on_device : memref<512x512xf32>
  %x = assign.node "x" on_device : memref<512xf32>
  %y = assign.node "y" on_device : memref<512xf32>
  loops.nest "y" (o = 512) {
    %sum = loops.reduce add (i = 512) : f32 {
      %wv = loops.load %w[o, i]
      %xv = loops.load %x[i]
      %p = arith.mulf %wv, %xv : f32
      loops.yield %p
    }
    loops.store %sum, %y[o]
  }
}
// CHECK-LABEL: loops.func @product_with_a_vector
// CHECK: loops.nest "y" (o = 512) schedule <order = (o), parallel = (o : 40), rows = o : 8, lanes = i : 16> {
// CHECK-NEXT: loops.reduce add (i = 512) blocks 256 : f32

loops.func @sums {
  %g = assign.node "g" on_device : memref<128x512xf32>
  %columns = assign.node "columns" on_device : memref<512xf32>
  %total = assign.node "total" on_device : memref<f32>
  loops.nest "columns" (o = 512) {
    %sum = loops.reduce add (b = 128) : f32 {
      %v = loops.load %g[b, o]
      loops.yield %v
    }
    loops.store %sum, %columns[o]
  }
  loops.nest "total" () {
    %sum = loops.reduce add (b = 128, o = 512) : f32 {
      %v = loops.load %g[b, o]
      loops.yield %v
    }
    loops.store %sum, %total[]
  }
}
// CHECK-LABEL: loops.func @sums
// CHECK: loops.nest "columns" (o = 512) schedule <order = (o), lanes = o : 64, chains = 2> {
// CHECK: loops.nest "total" () schedule <merged = (b*o), lanes = b*o : 64> {

loops.func @pointwise {
  %x = assign.node "x" on_device : memref<64x512xf32>
  %y = assign.node "y" on_device : memref<64x512xf32>
  %t = assign.node "t" on_device : memref<512x64xf32>
  %m = assign.node "m" on_device : memref<5x64x512xf32>
  %u = assign.node "u" on_device : memref<5x512x64xf32>
  loops.nest "scaled" (j = 512, i = 64) {
    %c = arith.constant 2.0 : f32
    %v = loops.load %x[i, j]
    %s = arith.mulf %v, %c : f32
    loops.store %s, %y[i, j]
  }
  loops.nest "transposed" (i = 64, j = 512) {
    %v = loops.load %x[i, j]
    loops.store %v, %t[j, i]
  }
  loops.nest "transposed, but for some" (i = 63, j = 500) {
    %v = loops.load %x[i, j]
    loops.store %v, %t[j, i]
  }
  loops.nest "transposed, of five planes" (i = 64, j = 512) {
    %v0 = loops.load %m[0, i, j]
    %v1 = loops.load %m[1, i, j]
    %v2 = loops.load %m[2, i, j]
    %v3 = loops.load %m[3, i, j]
    %v4 = loops.load %m[4, i, j]
    loops.store %v0, %u[0, j, i]
    loops.store %v1, %u[1, j, i]
    loops.store %v2, %u[2, j, i]
    loops.store %v3, %u[3, j, i]
    loops.store %v4, %u[4, j, i]
  }
  loops.nest "by hand" (i = 64, j = 512) schedule <order = (j, i)> {
    %v = loops.load %x[i, j]
    loops.store %v, %t[j, i]
  }
  loops.nest "one" () {
    %v = loops.load %x[0, 0]
    loops.store %v, %t[0, 0]
  }
}
// CHECK-LABEL: loops.func @pointwise
// CHECK: loops.nest "scaled" (j = 512, i = 64) schedule <merged = (i*j), order = (i*j), lanes = i*j : {{16|32|64}}> {
// CHECK: loops.nest "transposed" (i = 64, j = 512) schedule <order = (j, i), rows = {{.}} : 16, lanes = {{.}} : 16> {
// CHECK: loops.nest "transposed, but for some" (i = 63, j = 500) schedule <order = (j, i), rows = {{.}} : 8, lanes = {{.}} : 8> {
// CHECK: loops.nest "transposed, of five planes" (i = 64, j = 512) schedule <order = (j, i), {{.*}}rows = {{.}} : 8, lanes = {{.}} : 8> {
// CHECK: loops.nest "by hand" (i = 64, j = 512) schedule <order = (j, i)> {
// CHECK: loops.nest "one" () {

// -----

// A tile is no wider than registers hold, where many values are needed at the same time.
// CHECK-LABEL: loops.func @held
// CHECK: loops.nest "all before the first sum" (i = 512) schedule <order = (i), lanes = i : 16>
// CHECK: loops.nest "each before its sum" (i = 512) schedule <order = (i), lanes = i : 64>
loops.func @held {
  %p = assign.node "p" on_device : memref<17x512xf32>
  %y = assign.node "y" on_device : memref<512xf32>
  loops.nest "all before the first sum" (i = 512) {
    %v0 = loops.load %p[0, i]
    %v1 = loops.load %p[1, i]
    %v2 = loops.load %p[2, i]
    %v3 = loops.load %p[3, i]
    %v4 = loops.load %p[4, i]
    %v5 = loops.load %p[5, i]
    %v6 = loops.load %p[6, i]
    %v7 = loops.load %p[7, i]
    %v8 = loops.load %p[8, i]
    %v9 = loops.load %p[9, i]
    %v10 = loops.load %p[10, i]
    %v11 = loops.load %p[11, i]
    %v12 = loops.load %p[12, i]
    %v13 = loops.load %p[13, i]
    %v14 = loops.load %p[14, i]
    %v15 = loops.load %p[15, i]
    %v16 = loops.load %p[16, i]
    %s1 = arith.addf %v0, %v1 : f32
    %s2 = arith.addf %s1, %v2 : f32
    %s3 = arith.addf %s2, %v3 : f32
    %s4 = arith.addf %s3, %v4 : f32
    %s5 = arith.addf %s4, %v5 : f32
    %s6 = arith.addf %s5, %v6 : f32
    %s7 = arith.addf %s6, %v7 : f32
    %s8 = arith.addf %s7, %v8 : f32
    %s9 = arith.addf %s8, %v9 : f32
    %s10 = arith.addf %s9, %v10 : f32
    %s11 = arith.addf %s10, %v11 : f32
    %s12 = arith.addf %s11, %v12 : f32
    %s13 = arith.addf %s12, %v13 : f32
    %s14 = arith.addf %s13, %v14 : f32
    %s15 = arith.addf %s14, %v15 : f32
    %s16 = arith.addf %s15, %v16 : f32
    loops.store %s16, %y[i]
  }
  loops.nest "each before its sum" (i = 512) {
    %v0 = loops.load %p[0, i]
    %v1 = loops.load %p[1, i]
    %s1 = arith.addf %v0, %v1 : f32
    %v2 = loops.load %p[2, i]
    %s2 = arith.addf %s1, %v2 : f32
    %v3 = loops.load %p[3, i]
    %s3 = arith.addf %s2, %v3 : f32
    %v4 = loops.load %p[4, i]
    %s4 = arith.addf %s3, %v4 : f32
    %v5 = loops.load %p[5, i]
    %s5 = arith.addf %s4, %v5 : f32
    %v6 = loops.load %p[6, i]
    %s6 = arith.addf %s5, %v6 : f32
    %v7 = loops.load %p[7, i]
    %s7 = arith.addf %s6, %v7 : f32
    %v8 = loops.load %p[8, i]
    %s8 = arith.addf %s7, %v8 : f32
    %v9 = loops.load %p[9, i]
    %s9 = arith.addf %s8, %v9 : f32
    %v10 = loops.load %p[10, i]
    %s10 = arith.addf %s9, %v10 : f32
    %v11 = loops.load %p[11, i]
    %s11 = arith.addf %s10, %v11 : f32
    %v12 = loops.load %p[12, i]
    %s12 = arith.addf %s11, %v12 : f32
    %v13 = loops.load %p[13, i]
    %s13 = arith.addf %s12, %v13 : f32
    %v14 = loops.load %p[14, i]
    %s14 = arith.addf %s13, %v14 : f32
    %v15 = loops.load %p[15, i]
    %s15 = arith.addf %s14, %v15 : f32
    %v16 = loops.load %p[16, i]
    %s16 = arith.addf %s15, %v16 : f32
    loops.store %s16, %y[i]
  }
}

// -----

// What is too large for all caches is transposed in panels, so that two lines beside each other are read in turn.
// What panels do not divide is not.
// CHECK-LABEL: loops.func @from_memory
// CHECK:         loops.nest "y" (i_panel = 128, i = 32, j = 2048) schedule <order = (i_panel, j, i), parallel = {{.*}}, rows = i : 16, lanes = j : 16, strips = j : 256> {
// CHECK-NEXT:      %{{.*}} = loops.load %x[j, i + 32*i_panel]
// CHECK-NEXT:      loops.store %{{.*}}, %y[i + 32*i_panel, j]
// CHECK:         loops.nest "v" (i = 4080, j = 2048) schedule <order = (i, j), parallel = {{.*}}, rows = i : 16, lanes = j : 16, strips = j : 256> {
loops.func @from_memory {
  %x = assign.node "x" on_device : memref<2048x4096xf32>
  %y = assign.node "y" on_device : memref<4096x2048xf32>
  %u = assign.node "u" on_device : memref<2048x4080xf32>
  %v = assign.node "v" on_device : memref<4080x2048xf32>
  loops.nest "y" (i = 4096, j = 2048) {
    %a = loops.load %x[j, i]
    loops.store %a, %y[i, j]
  }
  loops.nest "v" (i = 4080, j = 2048) {
    %a = loops.load %u[j, i]
    loops.store %a, %v[i, j]
  }
}

// -----

// Points that store to the same cell run in turn: a tile has none such.
// CHECK-LABEL: loops.func @lanes_beside_clashes
// CHECK:         loops.nest "x" (b = 8, o = 16, k = 4, c = 64) schedule <merged = (k*c), order = (b, o, k*c), lanes = k*c : 64> {
// CHECK-LABEL: loops.func @lanes_along_one_of_two
// CHECK:         loops.nest "x" (o = 64, k = 32) schedule <order = (o, k), lanes = k : 32> {
// CHECK-LABEL: loops.func @no_lanes
// CHECK:         loops.nest "x" (o = 64, k = 32) {
loops.func @lanes_beside_clashes {
  %g = assign.node "g" on_device : memref<8x16x4x64xf32>
  %x = assign.node "x" on_device : memref<8x19x64xf32>
  loops.nest "x" (b = 8, o = 16, k = 4, c = 64) {
    %v = loops.load %g[b, o, k, c]
    %old = loops.load %x[b, k + o, c]
    %new = arith.addf %old, %v : f32
    loops.store %new, %x[b, k + o, c]
  }
}
loops.func @lanes_along_one_of_two {
  %g = assign.node "g" on_device : memref<64x32xf32>
  %x = assign.node "x" on_device : memref<95xf32>
  loops.nest "x" (o = 64, k = 32) {
    %v = loops.load %g[o, k]
    %old = loops.load %x[k + o]
    %new = arith.addf %old, %v : f32
    loops.store %new, %x[k + o]
  }
}
loops.func @no_lanes {
  %g = assign.node "g" on_device : memref<64x32xf32>
  %x = assign.node "x" on_device : memref<1xf32>
  loops.nest "x" (o = 64, k = 32) {
    %v = loops.load %g[o, k]
    %old = loops.load %x[0]
    %new = arith.addf %old, %v : f32
    loops.store %new, %x[0]
  }
}

// -----

// A convolution's gradient: the window and the channels run as one, in the kernel and in the image.
// CHECK-LABEL: loops.func @input_gradient
// CHECK:         loops.nest "dx" ({{.*}}) schedule <merged = (kw*c), order = (b, h, kh, w, kw*c), parallel = (b : 8), rows = b : 8, lanes = kw*c : 32> {
// A reduction over contiguous variables has one loop, too.
// CHECK-LABEL: loops.func @window
// CHECK:         loops.nest "y" ({{.*}}) schedule <merged = (kw*c), order = (b, h, w, o), parallel = (b : 16, h : 1), rows = b : 16, lanes = o : 16> {
loops.func @input_gradient {
  %k = assign.node "k" on_device : memref<16x5x5x6xf32>
  %dy = assign.node "dy" on_device : memref<64x10x10x16xf32>
  %dx = assign.node "dx" on_device : memref<64x14x14x6xf32>
  loops.nest "dx" (b = 64, h = 10, kh = 5, w = 10, kw = 5, c = 6) {
    %sum = loops.reduce add (o = 16) : f32 {
      %dyv = loops.load %dy[b, h, w, o]
      %kv = loops.load %k[o, kh, kw, c]
      %p = arith.mulf %dyv, %kv : f32
      loops.yield %p
    }
    %old = loops.load %dx[b, h + kh, w + kw, c]
    %new = arith.addf %old, %sum : f32
    loops.store %new, %dx[b, h + kh, w + kw, c]
  }
}
loops.func @window {
  %k = assign.node "k" on_device : memref<5x5x6x16xf32>
  %x = assign.node "x" on_device : memref<64x14x14x6xf32>
  %y = assign.node "y" on_device : memref<64x10x10x16xf32>
  loops.nest "y" (b = 64, h = 10, w = 10, o = 16) {
    %sum = loops.reduce add (kh = 5, kw = 5, c = 6) : f32 {
      %kv = loops.load %k[kh, kw, c, o]
      %xv = loops.load %x[b, h + kh, w + kw, c]
      %p = arith.mulf %kv, %xv : f32
      loops.yield %p
    }
    loops.store %sum, %y[b, h, w, o]
  }
}

// -----

// Few channels that nothing lies beside: lanes along the width, and shuffles that put the channels side by side.
// CHECK-LABEL: loops.func @few_channels
// CHECK:         loops.nest "y" ({{.*}}) schedule <order = (b, h, w, o), parallel = (b : 1), rows = o : 6, lanes = w : 32> {
loops.func @few_channels {
  %k = assign.node "k" on_device : memref<6x5x5xf32>
  %x = assign.node "x" on_device : memref<64x32x32xf32>
  %y = assign.node "y" on_device : memref<64x28x28x6xf32>
  loops.nest "y" (b = 64, h = 28, w = 28, o = 6) {
    %sum = loops.reduce add (kh = 5, kw = 5) : f32 {
      %kv = loops.load %k[o, kh, kw]
      %xv = loops.load %x[b, h + kh, w + kw]
      %p = arith.mulf %kv, %xv : f32
      loops.yield %p
    }
    loops.store %sum, %y[b, h, w, o]
  }
}

// -----

// Threads share what is large enough: blocks of whole tiles, some for each core. No task computes anew what is
// the same for several of them, as the largest value of a row; what only the whole has, stays whole.
// CHECK-LABEL: loops.func @shared
// CHECK:         loops.nest "long" (i = 1048576) schedule <order = (i), parallel = (i : 16384), lanes = i : 64> {
// CHECK:         loops.nest "short" (i = 4096) schedule <order = (i), lanes = i : 64> {
// CHECK:         loops.nest "rows" (b = 512, c = 1024) schedule <order = (b, c), parallel = (b : 16), rows = b : 16, lanes = c : 16> {
// CHECK:         loops.nest "whole" (c = 1024) schedule <merged = (b*d), order = (c), lanes = c : 64> {
// CHECK:         loops.nest "in turn" (b = 64, k = 512, o = 1024) schedule <order = (b, k, o), parallel = (b : 1), lanes = o : 64> {
// CHECK:         loops.group "m .. y" (b_block = 256) schedule <parallel = (b_block : 4)> {
// CHECK:           loops.nest "m" (b = 2) schedule <order = (b), rows = b : 2, lanes = c : 32> {
// CHECK:         loops.group "column sums" (b = 512) {
loops.func @shared {
  %v = assign.node "v" on_device : memref<1048576xf32>
  %w = assign.node "w" on_device : memref<1048576xf32>
  %x = assign.node "x" on_device : memref<512x1024xf32>
  %y = assign.node "y" on_device : memref<512x1024xf32>
  %s = assign.node "s" on_device : memref<1024xf32>
  %z = assign.node "z" on_device : memref<64x1535xf32>
  loops.nest "long" (i = 1048576) {
    %a = loops.load %v[i]
    loops.store %a, %w[i]
  }
  loops.nest "short" (i = 4096) {
    %a = loops.load %v[i]
    loops.store %a, %w[i]
  }
  loops.nest "rows" (b = 512, c = 1024) {
    %m = loops.reduce max (d = 1024) : f32 {
      %a = loops.load %x[b, d]
      loops.yield %a
    }
    %a = loops.load %x[b, c]
    %r = arith.subf %a, %m : f32
    loops.store %r, %y[b, c]
  }
  loops.nest "whole" (c = 1024) {
    %m = loops.reduce max (b = 512, d = 1024) : f32 {
      %a = loops.load %x[b, d]
      loops.yield %a
    }
    %a = loops.load %x[0, c]
    %r = arith.subf %a, %m : f32
    loops.store %r, %s[c]
  }
  loops.nest "in turn" (b = 64, k = 512, o = 1024) {
    %a = loops.load %x[k, o]
    %old = loops.load %z[b, k + o]
    %r = arith.addf %a, %old : f32
    loops.store %r, %z[b, k + o]
  }
  loops.group "m .. y" (b_block = 256) {
    %m = assign.node "m" local : memref<2xf32>
    loops.nest "m" (b = 2) {
      %r = loops.reduce max (c = 1024) : f32 {
        %a = loops.load %x[2*b_block + b, c]
        loops.yield %a
      }
      loops.store %r, %m[b]
    }
    loops.nest "y" (b = 2, c = 1024) {
      %a = loops.load %x[2*b_block + b, c]
      %r = loops.load %m[b]
      %d = arith.subf %a, %r : f32
      loops.store %d, %y[2*b_block + b, c]
    }
  }
  loops.group "column sums" (b = 512) {
    loops.nest "s" (c = 1024) {
      %a = loops.load %x[b, c]
      %old = loops.load %s[c]
      %r = arith.addf %a, %old : f32
      loops.store %r, %s[c]
    }
  }
}

// -----

// Rows of a matrix that no cache holds, side by side, are read as they lie; the largest of them with few masks.
// CHECK-LABEL: loops.func @images
// CHECK:         loops.nest "mean" (b = 32, c = 64) schedule <{{.*}}lanes = c : 64{{.*}}> {
// CHECK:         loops.nest "most" (c = 8192) schedule <{{.*}}lanes = c : 64{{.*}}> {
loops.func @images {
  %x = assign.node "x" on_device : memref<32x1024x64xf32>
  %z = assign.node "z" on_device : memref<64x8192xf32>
  %m = assign.node "m" on_device : memref<32x64xf32>
  %y = assign.node "y" on_device : memref<8192xf32>
  loops.nest "mean" (b = 32, c = 64) {
    %r = loops.reduce add (p = 1024) : f32 {
      %a = loops.load %x[b, p, c]
      loops.yield %a
    }
    loops.store %r, %m[b, c]
  }
  loops.nest "most" (c = 8192) {
    %r = loops.reduce max (b = 64) : f32 {
      %a = loops.load %z[b, c]
      loops.yield %a
    }
    loops.store %r, %y[c]
  }
}

// -----

// A matrix that no cache holds is read in long pieces, or in a few rows at a time.
// CHECK-LABEL: loops.func @matrix_and_vector
// CHECK:         loops.nest "columns" (o = 1024) schedule <order = (o), parallel = (o : 256), lanes = o : 256> {
// CHECK:         loops.nest "rows" (o = 1024) schedule <order = (o), parallel = (o : 64), rows = o : 8, lanes = k : 16> {
loops.func @matrix_and_vector {
  %w = assign.node "w" on_device : memref<1024x1024xf32>
  %x = assign.node "x" on_device : memref<1024xf32>
  %y = assign.node "y" on_device : memref<1024xf32>
  loops.nest "columns" (o = 1024) {
    %sum = loops.reduce add (k = 1024) : f32 {
      %wv = loops.load %w[k, o]
      %xv = loops.load %x[k]
      %p = arith.mulf %wv, %xv : f32
      loops.yield %p
    }
    loops.store %sum, %y[o]
  }
  loops.nest "rows" (o = 1024) {
    %sum = loops.reduce add (k = 1024) : f32 {
      %wv = loops.load %w[o, k]
      %xv = loops.load %x[k]
      %p = arith.mulf %wv, %xv : f32
      loops.yield %p
    }
    loops.store %sum, %y[o]
  }
}

// -----

// Few accumulators wait for each other: the sum has two chains.
// CHECK-LABEL: loops.func @kernel_gradient
// CHECK:         loops.nest "dk" ({{.*}}) schedule <order = (i, o, j), parallel = (i : 1), rows = j : 5, lanes = o : 8, chains = 2> {
loops.func @kernel_gradient {
  %g = assign.node "g" on_device : memref<64x28x28x6xf32>
  %x = assign.node "x" on_device : memref<64x32x32xf32>
  %dk = assign.node "dk" on_device : memref<6x5x5xf32>
  loops.nest "dk" (o = 6, i = 5, j = 5) {
    %sum = loops.reduce add (b = 64, h = 28, w = 28) : f32 {
      %gv = loops.load %g[b, h, w, o]
      %xv = loops.load %x[b, h + i, w + j]
      %p = arith.mulf %gv, %xv : f32
      loops.yield %p
    }
    loops.store %sum, %dk[o, i, j]
  }
}

// -----

// Each reader has a copy of its own, which has a label of its own.
// CHECK-LABEL: loops.func @copied_twice
// CHECK:         assign.node "w.packed" local because "contiguous copy for y" : memref<784x32xf32>
// CHECK:         assign.node "w.packed1" local because "contiguous copy for z" : memref<784x32xf32>
loops.func @copied_twice {
  %w = assign.node "w" on_device : memref<512x784xf32>
  %u = assign.node "u" on_device : memref<128x784xf32>
  %v = assign.node "v" on_device : memref<128x784xf32>
  %y = assign.node "y" on_device : memref<128x512xf32>
  %z = assign.node "z" on_device : memref<128x512xf32>
  loops.nest "y" (b = 128, o = 512) {
    %sum = loops.reduce add (i = 784) : f32 {
      %wv = loops.load %w[o, i]
      %uv = loops.load %u[b, i]
      %p = arith.mulf %wv, %uv : f32
      loops.yield %p
    }
    loops.store %sum, %y[b, o]
  }
  loops.nest "z" (b = 128, o = 512) {
    %sum = loops.reduce add (i = 784) : f32 {
      %wv = loops.load %w[o, i]
      %vv = loops.load %v[b, i]
      %p = arith.mulf %wv, %vv : f32
      loops.yield %p
    }
    loops.store %sum, %z[b, o]
  }
}

// -----

// A matrix that no cache holds is read once, and in the order of memory, for few rows of results: threads
// share the columns.
// CHECK-LABEL: loops.func @few_rows
// CHECK:         assign.node "y.sums" local because "partial results of y" : memref<4x3072xf32>
// CHECK:         loops.nest "y.sums reset"
// CHECK:         loops.group "y.sums" (o_block = 6, i_block = 48) schedule <parallel = (o_block : 1)> {
// CHECK-NEXT:      loops.nest "y.sums" (b = 4, o = 512) schedule <{{.*}}rows = b : 4, lanes = o : 32
// CHECK-NEXT:        %{{.*}} = loops.reduce add (i = 16) : f32 {
// CHECK:         loops.nest "y" (b = 4, o = 3072)
loops.func @few_rows {
  %w = assign.node "w" on_device : memref<768x3072xf32>
  %x = assign.node "x" on_device : memref<4x768xf32>
  %y = assign.node "y" on_device : memref<4x3072xf32>
  loops.nest "y" (b = 4, o = 3072) {
    %sum = loops.reduce add (i = 768) : f32 {
      %xv = loops.load %x[b, i]
      %wv = loops.load %w[i, o]
      %p = arith.mulf %xv, %wv : f32
      loops.yield %p
    }
    loops.store %sum, %y[b, o]
  }
}

// -----

// Each panel of a large operand is read for all rows: the rows of the image would read all panels again.
// CHECK-LABEL: loops.func @deep_convolution
// CHECK:         loops.nest "y" (b = 32, h = 8, w = 8, o_panel = 8, o = 32) schedule <{{.*}}order = (o_panel, o, b, h, w)
loops.func @deep_convolution {
  %k = assign.node "k" on_device : memref<256x3x3x256xf32>
  %x = assign.node "x" on_device : memref<32x10x10x256xf32>
  %y = assign.node "y" on_device : memref<32x8x8x256xf32>
  loops.nest "y" (b = 32, h = 8, w = 8, o = 256) {
    %sum = loops.reduce add (i = 3, j = 3, c = 256) : f32 {
      %kv = loops.load %k[o, i, j, c]
      %xv = loops.load %x[b, h + i, w + j, c]
      %p = arith.mulf %kv, %xv : f32
      loops.yield %p
    }
    loops.store %sum, %y[b, h, w, o]
  }
}

// The gradient of an image: lanes along columns and channels merged would be no panels, so that the copy has those of
// channels.
loops.func @image_gradient {
  %w = assign.node "w" on_device : memref<256x3x3x256xf32>
  %g = assign.node "g" on_device : memref<32x8x8x256xf32>
  %dx = assign.node "dx" on_device : memref<32x10x10x256xf32>
  loops.nest "dx" (b = 32, kh = 3, oh = 8, kw = 3, ow = 8, c = 256) {
    %sum = loops.reduce add (o = 256) : f32 {
      %gv = loops.load %g[b, oh, ow, o]
      %wv = loops.load %w[o, kh, kw, c]
      %p = arith.mulf %gv, %wv : f32
      loops.yield %p
    }
    %old = loops.load %dx[b, kh + oh, kw + ow, c]
    %new = arith.addf %old, %sum : f32
    loops.store %new, %dx[b, kh + oh, kw + ow, c]
  }
}
// CHECK-LABEL: loops.func @image_gradient
// CHECK: loops.nest "w.packed" (kh = 3, kw = 3, c_panel = 8, o = 256, c = 32)
// CHECK: loops.nest "dx" (b = 32, kh = 3, oh = 8, kw = 3, ow = 8, c_panel = 8, c = 32) schedule <order = (b, kh, kw, c_panel, c, ow, oh), {{.*}}rows = oh : 8, lanes = c : 32> {

// Images of 4 x 4 pixels and 512 channels stand a multiple of 4 KiB apart: 16 of them would meet in one set of the
// first-level cache.
loops.func @conflicts {
  %w = assign.node "w" on_device : memref<3x3x512x512xf32>
  %x = assign.node "x" on_device : memref<32x6x6x512xf32>
  %y = assign.node "y" on_device : memref<32x4x4x512xf32>
  loops.nest "y" (b = 32, h = 4, v = 4, o = 512) {
    %sum = loops.reduce add (kh = 3, kw = 3, c = 512) : f32 {
      %xv = loops.load %x[b, h + kh, v + kw, c]
      %wv = loops.load %w[kh, kw, c, o]
      %p = arith.mulf %xv, %wv : f32
      loops.yield %p
    }
    loops.store %sum, %y[b, h, v, o]
  }
}
// CHECK-LABEL: loops.func @conflicts
// CHECK-NOT: rows = b : 16
// CHECK: loops.nest "y" {{.*}} schedule
// CHECK-NOT: rows = b : 16
