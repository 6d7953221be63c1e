// RUN: ocannl-opt %s | ocannl-opt | filecheck %s
// RUN: ocannl-opt %s --print-op-generic | ocannl-opt | filecheck %s

// CHECK-LABEL: loops.func @kernels indices (batch_n = 4) {
loops.func @kernels indices (batch_n = 4) {
  %w = assign.node "w" on_device : memref<100x40xf32>
  %x = assign.node "x" constant : memref<4x10x40xf32>
  %y = assign.node "y" on_device : memref<10x100xf32>
  %z = assign.node "z" on_device : memref<10xf32>
  // CHECK:         kernel.launch "y" grid (o_block = 2) block (b = 4, o = 16) registers (br = 4, or = 4) {
  // CHECK-NEXT:      %ws = kernel.shared memref<16x64xf32>
  // CHECK-NEXT:      %xs = kernel.shared memref<16x16xf32>
  // CHECK-NEXT:      %s = loops.reduce add (kb = 3) : f32 {
  // CHECK-NEXT:        kernel.barrier
  // CHECK-NEXT:        kernel.copy %w[c + 64*o_block, k + 16*kb] to %ws[k, c] over (c = 64, k = 16) where k + 16*kb < 40, c + 64*o_block < 100
  // CHECK-NEXT:        kernel.copy %x[batch_n, r, k + 16*kb] to %xs[k, r] over (r = 16, k = 16) where k + 16*kb < 40, r < 10
  // CHECK-NEXT:        kernel.barrier
  // CHECK-NEXT:        %p = loops.reduce add (k = 16) where k + 16*kb < 40 : f32 {
  kernel.launch "y" grid (o_block = 2) block (b = 4, o = 16) registers (br = 4, or = 4) {
    %ws = kernel.shared memref<16x64xf32>
    %xs = kernel.shared memref<16x16xf32>
    %s = loops.reduce add (kb = 3) : f32 {
      kernel.barrier
      kernel.copy %w[64*o_block + c, 16*kb + k] to %ws[k, c] over (c = 64, k = 16) where 16*kb + k < 40, 64*o_block + c < 100
      kernel.copy %x[batch_n, r, 16*kb + k] to %xs[k, r] over (r = 16, k = 16) where 16*kb + k < 40, r < 10
      kernel.barrier
      %p = loops.reduce add (k = 16) where 16*kb + k < 40 : f32 {
        %1 = loops.load %ws[k, 4*o + or]
        %2 = loops.load %xs[k, 4*b + br]
        %3 = arith.mulf %1, %2 : f32
        loops.yield %3
      }
      loops.yield %p
    }
    // CHECK:           kernel.where 4*b + br < 10, 4*o + 64*o_block + or < 100 {
    // CHECK-NEXT:        loops.store %s, %y[4*b + br, 4*o + 64*o_block + or]
    // CHECK-NEXT:      }
    kernel.where 4*b + br < 10, 64*o_block + 4*o + or < 100 {
      loops.store %s, %y[4*b + br, 64*o_block + 4*o + or]
    }
  }
  // CHECK:         kernel.launch "z" grid (b = 10) block (lane = 64) {
  // CHECK:           %all = kernel.combine max %v across (lane) via %t
  // CHECK-NEXT:      kernel.where lane < 1 {
  kernel.launch "z" grid (b = 10) block (lane = 64) {
    %t = kernel.shared memref<64xf32>
    %v = loops.reduce max (k = 2) where 64*k + lane < 100 : f32 {
      %l = loops.load %y[b, 64*k + lane]
      loops.yield %l
    }
    %all = kernel.combine max %v across (lane) via %t
    kernel.where lane < 1 {
      loops.store %all, %z[b]
    }
  }
  // CHECK:         kernel.launch "in turn" {
  // CHECK-NEXT:      kernel.for (i = 10) {
  kernel.launch "in turn" {
    kernel.for (i = 10) {
      %l = loops.load %z[i]
      loops.store %l, %z[0]
    }
  }
  // CHECK:         kernel.launch "in stages" block (t = 32) {
  // CHECK-NEXT:      %ring = kernel.shared memref<2x8x16xf32, "ring">
  // CHECK-NEXT:      kernel.copy async %w[i, k] to %ring[0, i, k] over (i = 8, k = 16) by 4
  // CHECK-NEXT:      kernel.commit
  // CHECK-NEXT:      kernel.for (s = 2) {
  // CHECK-NEXT:        kernel.wait 0
  // CHECK-NEXT:        kernel.barrier
  // CHECK-NEXT:        kernel.copy async %w[i, k + 16*s + 16] to %ring[s + 1, i, k] over (i = 8, k = 16) by 4 where k + 16*s + 16 < 40
  // CHECK-NEXT:        kernel.commit
  // CHECK-NEXT:        %q = loops.load %ring[s, 0, 0]
  kernel.launch "in stages" block (t = 32) {
    %ring = kernel.shared memref<2x8x16xf32, "ring">
    kernel.copy async %w[i, k] to %ring[0, i, k] over (i = 8, k = 16) by 4
    kernel.commit
    kernel.for (s = 2) {
      kernel.wait 0
      kernel.barrier
      kernel.copy async %w[i, 16*s + k + 16] to %ring[s + 1, i, k] over (i = 8, k = 16) by 4 where 16*s + k + 16 < 40
      kernel.commit
      %q = loops.load %ring[s, 0, 0]
    }
  }
  // CHECK:         kernel.launch "in bulk" block (t = 32) {
  // CHECK:           kernel.copy bulk %x[batch_n, i + 8, k] to %tiles[1, i, k] over (i = 8, k = 32) by 4 where i + 8 < 10
  kernel.launch "in bulk" block (t = 32) {
    %tiles = kernel.shared memref<2x8x32xf32, "swizzled ring">
    kernel.copy bulk %x[batch_n, i + 8, k] to %tiles[1, i, k] over (i = 8, k = 32) by 4 where i + 8 < 10
    kernel.commit
    kernel.wait 0
  }
  // CHECK:         kernel.launch "by number" block (t = 6) {
  // CHECK-NEXT:      kernel.point (i = 2, k = 3) number t {
  // CHECK-NEXT:        %two = arith.constant
  // CHECK-NEXT:        loops.store %two, %w[i, k]
  kernel.launch "by number" block (t = 6) {
    kernel.point (i = 2, k = 3) number t {
      %two = arith.constant 2.000000e+00 : f32
      loops.store %two, %w[i, k]
    }
  }
  // CHECK:         kernel.launch "on tensor cores" block (l = 32) registers (h = 2, q = 2, c = 2, e = 2) {
  // CHECK:           %d1 = kernel.mma %a1, %b1 rows (h) deep (q) columns (c)
  // CHECK:           %d2 = kernel.mma %a2, %b2 rows (h) deep (q, e) columns (c)
  // CHECK:           %d3 = kernel.mma %a3, %b3 rows (h) deep () columns (c)
  // CHECK-NEXT:      %d4 = arith.addf %d3, %d3 : f64
  // CHECK:           kernel.wait_products 1
  // CHECK:             %d5 = kernel.mma async %a2, %b2 rows (h) deep (q, e) columns (c)
  kernel.launch "on tensor cores" block (l = 32) registers (h = 2, q = 2, c = 2, e = 2) {
    %f1 = kernel.shared memref<2x2x32xf32>
    %a1 = loops.load %f1[q, h, l]
    %b1 = loops.load %f1[0, q, l]
    %d1 = kernel.mma %a1, %b1 rows (h) deep (q) columns (c)
    %f2 = kernel.shared memref<2x2x2x32xbf16>
    %a2 = loops.load %f2[q, h, e, l]
    %b2 = loops.load %f2[0, q, e, l]
    %d2 = kernel.mma %a2, %b2 rows (h) deep (q, e) columns (c)
    %f3 = kernel.shared memref<2x32xf64>
    %a3 = loops.load %f3[h, l]
    %b3 = loops.load %f3[0, l]
    %d3 = kernel.mma %a3, %b3 rows (h) deep () columns (c)
    %d4 = arith.addf %d3, %d3 : f64
    %d7 = loops.reduce add (k = 3) : f32 {
      kernel.wait_products 1
      %d6 = loops.reduce add (j = 2) : f32 {
        %d5 = kernel.mma async %a2, %b2 rows (h) deep (q, e) columns (c)
        loops.yield %d5
      }
      loops.yield %d6
    }
  }
  // CHECK:         kernel.launch "in a warp" block (lane = 32) {
  // CHECK-NEXT:      %c = arith.constant 1.000000e+00 : f32
  // CHECK-NEXT:      %d = kernel.combine add %c across (lane)
  // CHECK-NEXT:    }
  // CHECK-NEXT:    kernel.launch "nothing" {
  // CHECK-NEXT:    }
  kernel.launch "in a warp" block (lane = 32) {
    %c = arith.constant 1.0 : f32
    %d = kernel.combine add %c across (lane)
  }
  kernel.launch "nothing" {
  }
}
