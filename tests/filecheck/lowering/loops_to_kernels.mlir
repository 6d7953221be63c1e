// RUN: ocannl-opt %s -p lower-loops-to-kernels | filecheck %s
// RUN: ocannl-opt %s -p 'lower-loops-to-kernels{tf32=true}' | filecheck %s --check-prefix=TF32

// A thread for each point; what is left of a block is guarded.
loops.func @pointwise indices (batch_n = 4) {
  %x = assign.node "x" constant : memref<4x997xf32>
  %y = assign.node "y" on_device : memref<997x7xf32>
  loops.nest "y" (j = 7, i = 997) {
    %l = loops.load %x[batch_n, i]
    loops.store %l, %y[i, j]
  }
  loops.nest "no points" (i = 0) {
    %l = loops.load %x[0, i]
    loops.store %l, %y[i, 0]
  }
}
// CHECK-LABEL: loops.func @pointwise indices (batch_n = 4) {
// CHECK:         kernel.launch "y" grid (i_block = 28) block (i_thread = 36, j = 7) {
// CHECK-NEXT:      kernel.where 36*i_block + i_thread < 997 {
// CHECK-NEXT:        %l = loops.load %x[batch_n, 36*i_block + i_thread]
// CHECK-NEXT:        loops.store %l, %y[36*i_block + i_thread, j]
// CHECK-NEXT:      }
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// Large: each thread takes what is one access to memory.
loops.func @vectors {
  %x = assign.node "x" constant : memref<256x1024xf32>
  %y = assign.node "y" on_device : memref<256x1024xf32>
  loops.nest "y" (i = 256, j = 1024) {
    %l = loops.load %x[i, j]
    loops.store %l, %y[i, j]
  }
}
// CHECK-LABEL: loops.func @vectors {
// CHECK:         kernel.launch "y" grid (i = 256) block (j_thread = 256) registers (j_reg = 4) {
// CHECK-NEXT:      %l = loops.load %x[i, j_reg + 4*j_thread]

// Of points that write to one cell, those with another `k` run in turn; threads wait for each other in between.
loops.func @scatter {
  %x = assign.node "x" constant : memref<5x8x3xf32>
  %y = assign.node "y" on_device : memref<5x17xf32>
  loops.nest "y" (b = 5, o = 8, k = 3) {
    %l = loops.load %x[b, o, k]
    %old = loops.load %y[b, 2*o + k]
    %new = arith.addf %l, %old : f32
    loops.store %new, %y[b, 2*o + k]
  }
}
// CHECK-LABEL: loops.func @scatter {
// CHECK:         kernel.launch "y" block (b = 5, o = 8) {
// CHECK-NEXT:      kernel.for (k = 3) {
// CHECK-NEXT:        loops.load %x[b, o, k]
// CHECK:             loops.store %new, %y[b, k + 2*o]
// CHECK-NEXT:        kernel.barrier

// What is found at run time may be the same at all points: a few run in turn, in one thread.
loops.func @few {
  %id = assign.node "id" constant : memref<16xi32>
  %y = assign.node "y" on_device : memref<9x4xf32>
  loops.nest "y" (i = 16, j = 4) {
    %n = loops.load %id[i]
    %at, %inside = loops.position %n below 9
    %old = loops.load %y[%at, j]
    %new = arith.addf %old, %old : f32
    loops.store %new, %y[%at, j]
  }
}
// CHECK-LABEL: loops.func @few {
// CHECK:         kernel.launch "y" block (j = 4) {
// CHECK-NEXT:      kernel.for (i = 16) {
// CHECK-NOT:         kernel.barrier

// Of many, blocks own rows: a block looks for chunks with positions of its own, then goes through these.
loops.func @histogram {
  %id = assign.node "id" constant : memref<64xi32>
  %y = assign.node "y" on_device : memref<900x4xf32>
  loops.nest "y" (i = 64, j = 4) {
    %n = loops.load %id[i]
    %at, %inside = loops.position %n below 900
    %old = loops.load %y[%at, j]
    %new = arith.addf %old, %old : f32
    loops.store %new, %y[%at, j]
  }
}
// CHECK-LABEL: loops.func @histogram {
// CHECK:         kernel.launch "y" grid (owner = 450) block (j_lane = 32) registers (j_reg = 4) {
// CHECK:           loops.reduce or (i_inside1 = 32) : i32 {
// CHECK:             loops.index 2*owner + 2 : i32
// CHECK:           kernel.barrier
// CHECK:           kernel.for (i_chunk = 2) {
// CHECK:             kernel.if
// CHECK-NEXT:          kernel.for (i_inside = 32) {
// CHECK:                 kernel.if
// CHECK-NEXT:              loops.load %y[%at_1, 4*j_lane + j_reg]

// Neighbouring threads read neighbouring elements of a row, and combine their sums in a warp.
loops.func @rows {
  %x = assign.node "x" constant : memref<6x100xf32>
  %y = assign.node "y" on_device : memref<6xf32>
  loops.nest "y" (i = 6) {
    %s = loops.reduce add (j = 100) : f32 {
      %l = loops.load %x[i, j]
      loops.yield %l
    }
    %t = math.sqrt %s : f32
    loops.store %t, %y[i]
  }
}
// CHECK-LABEL: loops.func @rows {
// CHECK:         kernel.launch "y" block (i = 6, lane = 32) {
// CHECK-NEXT:      %s = loops.reduce add (j_step = 4) where 32*j_step + lane < 100 : f32 {
// CHECK-NEXT:        %l = loops.load %x[i, 32*j_step + lane]
// CHECK-NEXT:        loops.yield %l
// CHECK-NEXT:      }
// CHECK-NEXT:      [[SUM:%.*]] = kernel.combine add %s across (lane)
// CHECK-NEXT:      kernel.where lane < 1 {
// CHECK-NEXT:        %t = math.sqrt [[SUM]] : f32
// CHECK-NEXT:        loops.store %t, %y[i]

// Two reductions of the same columns are one loop, which loads what both need once.
loops.func @both {
  %x = assign.node "x" constant : memref<100x32xf32>
  %y = assign.node "y" on_device : memref<32xf32>
  %z = assign.node "z" on_device : memref<32xf32>
  loops.nest "y .. z" (j = 32) {
    %s = loops.reduce add (i = 100) : f32 {
      %l = loops.load %x[i, j]
      loops.yield %l
    }
    loops.store %s, %y[j]
    %m = loops.reduce max (k = 100) : f32 {
      %l2 = loops.load %x[k, j]
      loops.yield %l2
    }
    loops.store %m, %z[j]
  }
}
// CHECK-LABEL: loops.func @both {
// CHECK:         kernel.launch "y .. z" grid (j_block = 4) block (lane = 32, j_thread = 8) {
// CHECK:           [[S:%.*]] = kernel.own memref<1xf32>
// CHECK:           [[M:%.*]] = kernel.own memref<1xf32>
// CHECK:           kernel.for (i_step = 4) {
// CHECK-NEXT:        kernel.where 32*i_step + lane < 100 {
// CHECK-NEXT:          [[L:%.*]] = loops.load %x[32*i_step + lane, 8*j_block + j_thread]
// CHECK-NEXT:          loops.load [[S]][0]
// CHECK:               loops.store %{{.*}}, [[S]][0]
// CHECK-NEXT:          loops.load [[M]][0]
// CHECK:               loops.store %{{.*}}, [[M]][0]
// CHECK:           [[T:%.*]] = loops.load [[S]][0]
// CHECK:           kernel.combine add [[T]] across (lane)
// CHECK:           kernel.combine max

// The sum over a column: neighbours stand beside each other in a row, and combine through shared memory.
loops.func @columns {
  %x = assign.node "x" constant : memref<4096x32xf32>
  %y = assign.node "y" on_device : memref<32xf32>
  loops.nest "y" (j = 32) {
    %s = loops.reduce add (i = 4096) : f32 {
      %l = loops.load %x[i, j]
      loops.yield %l
    }
    loops.store %s, %y[j]
  }
}
// CHECK-LABEL: loops.func @columns {
// CHECK:         kernel.launch "y" grid (j_block = 4) block (lane = 128, j_thread = 8) {
// CHECK-NEXT:      [[SCRATCH:%.*]] = kernel.shared memref<1024xf32>
// CHECK-NEXT:      %s = loops.reduce add (i_step = 32) : f32 {
// CHECK-NEXT:        %l = loops.load %x[128*i_step + lane, 8*j_block + j_thread]
// CHECK-NEXT:        loops.yield %l
// CHECK-NEXT:      }
// CHECK-NEXT:      kernel.combine add %s across (lane) via [[SCRATCH]]

// Tiles of both operands are copied into shared memory, each while the one before it is used; what follows
// the product is done on its tile.
loops.func @layer {
  %w = assign.node "w" on_device : memref<500x784xf32>
  %x = assign.node "x" on_device : memref<64x784xf32>
  %b = assign.node "b" on_device : memref<500xf32>
  %y = assign.node "y" on_device : memref<64x500xf32>
  loops.nest "y" (b = 64, o = 500) {
    %bias = loops.load %b[o]
    %s = loops.reduce add (k = 784) : f32 {
      %1 = loops.load %w[o, k]
      %2 = loops.load %x[b, k]
      %3 = arith.mulf %1, %2 : f32
      loops.yield %3
    }
    %4 = arith.addf %s, %bias : f32
    loops.store %4, %y[b, o]
  }
}
// CHECK-LABEL: loops.func @layer {
// CHECK:         kernel.launch "y" grid (b_block = 4, o_block = 32) block (b_warp = 4, o_warp = 2, b_lane = 4, o_lane = 8) {
// CHECK-NEXT:      [[X:%.*]] = kernel.shared memref<4x16x20xf32, "ring">
// CHECK-NEXT:      [[W:%.*]] = kernel.shared memref<4x16x20xf32, "ring">
// CHECK-NEXT:      kernel.copy async %x[b + 16*b_block, k] to [[X]][0, k, b] over (b = 16, k = 16)
// CHECK-NEXT:      kernel.copy async %w[o + 16*o_block, k] to [[W]][0, k, o] over (o = 16, k = 16) where o + 16*o_block < 500
// CHECK-NEXT:      kernel.commit
// CHECK-NEXT:      kernel.copy async %x[b + 16*b_block, k + 16] to [[X]][1, k, b] over (b = 16, k = 16)
// CHECK:           [[TILE:%.*]] = loops.reduce add (k_block = 49) : f32 {
// CHECK-NEXT:        kernel.wait 2
// CHECK-NEXT:        kernel.barrier
// CHECK-NEXT:        kernel.copy async %x[b + 16*b_block, k + 16*k_block + 48] to [[X]][k_block + 3, k, b] over (b = 16, k = 16) where k + 16*k_block + 48 < 784
// CHECK-NEXT:        kernel.copy async %w[o + 16*o_block, k + 16*k_block + 48] to [[W]][k_block + 3, k, o] over (o = 16, k = 16) where k + 16*k_block + 48 < 784, o + 16*o_block < 500
// CHECK-NEXT:        kernel.commit
// CHECK-NEXT:        [[SUM:%.*]] = loops.reduce add (k = 16) : f32 {
// CHECK-NEXT:          loops.load [[W]][k_block, k, o_lane + 8*o_warp]
// CHECK-NEXT:          loops.load [[X]][k_block, k, b_lane + 4*b_warp]
// CHECK-NEXT:          arith.mulf
// CHECK-NEXT:          loops.yield
// CHECK-NEXT:        }
// CHECK-NEXT:        loops.yield [[SUM]]
// CHECK-NEXT:      }
// CHECK-NEXT:      kernel.where 16*o_block + o_lane + 8*o_warp < 500 {
// CHECK-NEXT:        %bias = loops.load %b[16*o_block + o_lane + 8*o_warp]
// CHECK-NEXT:        arith.addf [[TILE]], %bias : f32
// CHECK-NEXT:        loops.store

// With more work the tiles are larger: each thread has 8 x 8 values in registers, and a warp 32 x 64.
loops.func @large {
  %w = assign.node "w" on_device : memref<4096x64xf32>
  %x = assign.node "x" on_device : memref<2048x64xf32>
  %y = assign.node "y" on_device : memref<2048x4096xf32>
  loops.nest "y" (b = 2048, o = 4096) {
    %s = loops.reduce add (k = 64) : f32 {
      %1 = loops.load %w[o, k]
      %2 = loops.load %x[b, k]
      %3 = arith.mulf %1, %2 : f32
      loops.yield %3
    }
    loops.store %s, %y[b, o]
  }
}
// TF32-LABEL: loops.func @large {
// TF32:         kernel.launch "y" grid (b_band = 2, o_block = 16, b_block = 8) block (b_warp = 2, o_warp = 4, b_lane = 8, o_lane = 4) registers (b_tile = 4, o_tile = 8, k_half = 2, b_half = 2, o_pair = 2) {
// TF32-NEXT:      [[X:%.*]] = kernel.shared memref<3x128x20xf32, "ring">
// TF32-NEXT:      [[W:%.*]] = kernel.shared memref<3x256x20xf32, "ring">
// TF32-NEXT:      kernel.copy async %x[b + 1024*b_band + 128*b_block, k] to [[X]][0, b, k] over (b = 128, k = 16) by 4
// TF32:           [[TILE:%.*]] = loops.reduce add (k_block = 4) : f32 {
// TF32-NEXT:        kernel.wait 1
// TF32-NEXT:        kernel.barrier
// TF32:             [[SUM:%.*]] = loops.reduce add (k_step = 2) : f32 {
// TF32-NEXT:          [[A:%.*]] = loops.load [[X]][k_block, 8*b_half + b_lane + 16*b_tile + 64*b_warp, 4*k_half + 8*k_step + o_lane]
// TF32-NEXT:          [[B:%.*]] = loops.load [[W]][k_block, b_lane + 8*o_tile + 64*o_warp, 4*k_half + 8*k_step + o_lane]
// TF32-NEXT:          kernel.where k_step < 1 {
// TF32-NEXT:            kernel.copy async %x
// TF32-NEXT:            kernel.copy async %w
// TF32-NEXT:            kernel.commit
// TF32-NEXT:          }
// TF32-NEXT:          [[P:%.*]] = kernel.mma [[A]], [[B]] rows (b_half) deep (k_half) columns (o_pair)
// TF32-NEXT:          loops.yield [[P]]
// TF32:           loops.store [[TILE]], %y[1024*b_band + 128*b_block + 8*b_half + b_lane + 16*b_tile + 64*b_warp, 256*o_block + 2*o_lane + o_pair + 8*o_tile + 64*o_warp]
// CHECK-LABEL: loops.func @large {
// CHECK:         kernel.launch "y" grid (b_band = 2, o_block = 32, b_block = 8) block (b_warp = 4, o_warp = 2, b_lane = 4, o_lane = 8) registers (b_group = 2, b_reg = 4, o_group = 2, o_reg = 4) {
// CHECK:             loops.load {{.*}}[k_block, k, 64*o_group + 4*o_lane + o_reg + 32*o_warp]

// What is read along one variable and written along another is turned in shared memory.
loops.func @turn {
  %x = assign.node "x" constant : memref<128x256xf32>
  %y = assign.node "y" on_device : memref<256x128xf32>
  loops.nest "y" (b = 256, o = 128) {
    %v = loops.load %x[o, b]
    loops.store %v, %y[b, o]
  }
}
// CHECK-LABEL: loops.func @turn {
// CHECK:         kernel.launch "y" grid (b_block = 8, o_block = 4) block (b_thread = 8, o_thread = 32) registers (b_reg = 4) {
// CHECK-NEXT:      [[TILE:%.*]] = kernel.shared memref<32x33xf32>
// CHECK-NEXT:      kernel.copy %x[o + 32*o_block, b + 32*b_block] to [[TILE]][o, b] over (o = 32, b = 32)
// CHECK-NEXT:      kernel.barrier
// CHECK-NEXT:      %v = loops.load [[TILE]][o_thread, 8*b_reg + b_thread]
// CHECK-NEXT:      loops.store %v, %y[32*b_block + 8*b_reg + b_thread, 32*o_block + o_thread]

// Nests and groups without points vanish.
loops.func @empty {
  %x = assign.node "x" on_device : memref<4x0xf32>
  %y = assign.node "y" on_device : memref<4xf32>
  loops.group "rows" (b = 4) {
    loops.nest "x" (i = 0) {
      %c = arith.constant 1.0 : f32
      loops.store %c, %x[b, i]
    }
    loops.nest "y" () {
      %c = arith.constant 1.0 : f32
      loops.store %c, %y[b]
    }
  }
  loops.group "nothing" (b = 4) {
  }
}
// CHECK-LABEL: loops.func @empty {
// CHECK:         kernel.launch "rows" block (b_thread = 4, lane = 32) {
// CHECK-NEXT:      kernel.where lane < 1 {
// CHECK:             loops.store %c, %y[b_thread]
// CHECK-NOT:     kernel.launch
