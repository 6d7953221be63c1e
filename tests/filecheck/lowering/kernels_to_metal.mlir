// RUN: ocannl-opt %s -t metal | filecheck %s

// Threads of a block share what is in threadgroup memory.
loops.func @turn {
  %x = assign.node "x" on_device : memref<3x64xf32>
  %y = assign.node "y" on_device : memref<3x64xf32>
  kernel.launch "y" grid (b = 3) block (t = 64) {
    %s = kernel.shared memref<64xf32>
    %l = loops.load %x[b, t]
    loops.store %l, %s[t]
    kernel.barrier
    %r = loops.load %s[-t + 63]
    loops.store %r, %y[b, t]
  }
}
// CHECK:      #include <metal_stdlib>
// CHECK:      #pragma METAL fp math_mode(safe)
// CHECK-NEXT: #pragma METAL fp contract(off)
// CHECK:      {{\[\[}}kernel, max_total_threads_per_threadgroup(64)]]
// CHECK-NEXT: void turn_y(
// CHECK-NEXT:   const device float *p0 {{\[\[}}buffer(0)]],
// CHECK-NEXT:   device float *p1 {{\[\[}}buffer(1)]],
// CHECK-NEXT:   uint block_number {{\[\[}}threadgroup_position_in_grid]],
// CHECK-NEXT:   uint thread_number {{\[\[}}thread_index_in_threadgroup]]) {
// CHECK-NEXT:   alignas(16) threadgroup float s0[64];
// CHECK-NEXT:   const int b = block_number;
// CHECK-NEXT:   const int t = thread_number;
// CHECK-NEXT:   const float v1 = p0[64*b + t];
// CHECK-NEXT:   s0[t] = v1;
// CHECK-NEXT:   threadgroup_barrier(mem_flags::mem_threadgroup);
// CHECK-NEXT:   const float v2 = s0[-t + 63];
// CHECK-NEXT:   p1[64*b + t] = v2;
// CHECK-NEXT: }

// In a SIMD group from register to register, between the groups through threadgroup memory.
loops.func @sums {
  %x = assign.node "x" on_device : memref<64xf32>
  %y = assign.node "y" on_device : memref<1xf32>
  kernel.launch "sum of x" block (t = 64) {
    %s = kernel.shared memref<64xf32>
    %l = loops.load %x[t]
    %sum = kernel.combine add %l across (t) via %s
    kernel.where t < 1 {
      loops.store %sum, %y[0]
    }
  }
}
// CHECK:      void sums_sum_of_x(
// CHECK:        float v2 = v1;
// CHECK-NEXT:   v2 = v2 + simd_shuffle_xor(v2, 1);
// CHECK-NEXT:   v2 = v2 + simd_shuffle_xor(v2, 2);
// CHECK-NEXT:   v2 = v2 + simd_shuffle_xor(v2, 4);
// CHECK-NEXT:   v2 = v2 + simd_shuffle_xor(v2, 8);
// CHECK-NEXT:   v2 = v2 + simd_shuffle_xor(v2, 16);
// CHECK-NEXT:   s0[thread_number] = v2;
// CHECK-NEXT:   threadgroup_barrier(mem_flags::mem_threadgroup);
// CHECK-NEXT:   const uint v3 = thread_number / 64 * 64 + thread_number % 32;
// CHECK-NEXT:   v2 = s0[v3];
// CHECK-NEXT:   for (int v4 = 1; v4 < 2; v4++) {
// CHECK-NEXT:     v2 = v2 + s0[v3 + v4 * 32];
// CHECK-NEXT:   }
// CHECK-NEXT:   threadgroup_barrier(mem_flags::mem_threadgroup);
// CHECK-NEXT:   if (t < 1) {
// CHECK-NEXT:     p1[0] = v2;
// CHECK-NEXT:   }

// Equal kernels are written once; what stands in the way of a name is changed.
loops.func @again {
  %x = assign.node "x" on_device : memref<3x64xf32>
  %y = assign.node "y" on_device : memref<3x64xf32>
  kernel.launch "y" grid (b = 3) block (t = 64) {
    %s = kernel.shared memref<64xf32>
    %l = loops.load %x[b, t]
    loops.store %l, %s[t]
    kernel.barrier
    %r = loops.load %s[-t + 63]
    loops.store %r, %y[b, t]
  }
  kernel.launch "1/x" block (int = 3, v1 = 2) {
    %l = loops.load %x[int, v1]
    %c = arith.constant -1.0 : f32
    %r = arith.divf %c, %l : f32
    loops.store %r, %x[int, v1]
  }
}
// CHECK-NOT:  void again_y(
// CHECK:      void again_1_x(
// CHECK:        const int int_ = thread_number / 2;
// CHECK-NEXT:   const int v1_ = thread_number % 2;
// CHECK-NEXT:   const float v1 = p0[64*int_ + v1_];
// CHECK-NEXT:   const float v2 = (-1.0f) / v1;

// Register variables are loops; operations at the same points share them. Aligned elements are one access.
loops.func @registers indices (n = 5) {
  %x = assign.node "x" constant because "data" : memref<5x64xf32>
  %y = assign.node "y" on_device : memref<64xf32>
  kernel.launch "y" block (t = 16) registers (r = 4) {
    %v = loops.load %x[n, r + 4*t]
    %e = arith.addf %v, %v : f32
    %i = loops.index r + n : f32
    %z = arith.mulf %e, %i : f32
    loops.store %z, %y[r + 4*t]
  }
}
// CHECK:      void registers_y(
// CHECK:        constant long &n {{\[\[}}buffer(2)]],
// CHECK:        float v2[4];
// CHECK-NEXT:   const float4 w1 = *(const device float4 *)&p0[64*n + 4*t];
// CHECK-NEXT:   UNROLL for (int r = 0; r < 4; r++) {
// CHECK-NEXT:     v2[r] = w1[r];
// CHECK-NEXT:   }
// CHECK-NEXT:   float v5[4];
// CHECK-NEXT:   UNROLL for (int r = 0; r < 4; r++) {
// CHECK-NEXT:     const float v3 = v2[r] + v2[r];
// CHECK-NEXT:     const float v4 = float(n + r);
// CHECK-NEXT:     v5[r] = v3 * v4;
// CHECK-NEXT:   }
// CHECK-NEXT:   float4 w6;
// CHECK-NEXT:   UNROLL for (int r = 0; r < 4; r++) {
// CHECK-NEXT:     w6[r] = v5[r];
// CHECK-NEXT:   }
// CHECK-NEXT:   *(device float4 *)&p1[4*t] = w6;

// All of a value is loaded before any of another one is stored over it.
loops.func @reverse {
  %x = assign.node "x" on_device : memref<4xf32>
  kernel.launch "x" registers (r = 4) {
    %v = loops.load %x[-r + 3]
    loops.store %v, %x[r]
  }
}
// CHECK:      void reverse_x(
// CHECK:        float v1[4];
// CHECK-NEXT:   UNROLL for (int r = 0; r < 4; r++) {
// CHECK-NEXT:     v1[r] = p0[-r + 3];
// CHECK-NEXT:   }

// A ring of arrays; Metal copies while it waits.
loops.func @stages {
  %x = assign.node "x" on_device : memref<8x60xf32>
  %y = assign.node "y" on_device : memref<64xf32>
  kernel.launch "y" block (t = 64) {
    %s = kernel.shared memref<2x64xf32, "ring">
    kernel.copy async %x[0, i] to %s[0, i] over (i = 64) by 4 where i < 60
    kernel.commit
    %sum = loops.reduce add (k = 8) : f32 {
      kernel.wait 0
      kernel.wait_products 0
      kernel.barrier
      kernel.copy async %x[k + 1, i] to %s[k + 1, i] over (i = 60) where k + 1 < 8
      kernel.commit
      %l = loops.load %s[k, -t + 63]
      loops.yield %l
    }
    loops.store %sum, %y[t]
  }
}
// CHECK:      void stages_y(
// CHECK:          if (v2 < 16) {
// CHECK-NEXT:       const int i = v2 * 4;
// CHECK-NEXT:       if (i < 60) {
// CHECK-NEXT:         *(threadgroup float4 *)&s0[i] = *(const device float4 *)&p0[i];
// CHECK-NEXT:       }
// CHECK-NEXT:       else {
// CHECK-NEXT:         s0[i] = float(0);
// CHECK-NEXT:         s0[i + 1] = float(0);
// CHECK-NEXT:         s0[i + 2] = float(0);
// CHECK-NEXT:         s0[i + 3] = float(0);
// CHECK:        for (int k = 0; k < 8; k++) {
// CHECK-NEXT:     threadgroup_barrier(mem_flags::mem_threadgroup);
// CHECK:                s0[(k + 1) % 2 * 64 + i] = p0[60*k + i + 60];
// CHECK:          const float v6 = s0[(k) % 2 * 64 + -t + 63];

// CHECK:      // What a host has to know, as JSON:
// CHECK-NEXT: // {"routines": [
// CHECK-NEXT: // {"name": "turn", "arena_bytes": 0, "indices": {},
// CHECK-NEXT: // "buffers": [
// CHECK-NEXT: // {"name": "x", "type": "float", "shape": [3, 64], "bytes": 768, "mode": "on_device", "offset": null},
// CHECK-NEXT: // {"name": "y", "type": "float", "shape": [3, 64], "bytes": 768, "mode": "on_device", "offset": null}],
// CHECK-NEXT: // "kernels": [
// CHECK-NEXT: // {"function": "turn_y", "blocks": 3, "threads": 64, "shared_bytes": 256, "buffers": ["x", "y"], "writes": ["y"], "indices": [], "structure": false}]},
// CHECK:      // {"function": "turn_y",
// CHECK:      // {"name": "registers", "arena_bytes": 0, "indices": {"n": 5},
// CHECK:      // {"function": "registers_y", {{.*}} "buffers": ["x", "y"], "writes": ["y"], "indices": ["n"],
