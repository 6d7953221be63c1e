// RUN: ocannl-opt %s -t ptx | filecheck %s
// RUN: ocannl-opt %s -t 'ptx{arch=sm_90}' | filecheck %s --check-prefix=ARCH
// ARCH: .target sm_90

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
// CHECK-LABEL: .visible .entry turn_y(
// CHECK:       .maxntid 64
// CHECK:       .shared .align 16 .b8 turn_y_shared0[256];
// CHECK-DAG:   %ctaid.x;
// CHECK-DAG:   %tid.x;
// CHECK:       ld.global.nc.b32
// CHECK:       st.shared.b32
// CHECK:       bar.sync 0;
// CHECK:       ld.shared.b32
// CHECK:       st.global.b32

// In a warp from register to register, between the warps through shared memory.
loops.func @sums {
  %x = assign.node "x" on_device : memref<64xf64>
  %y = assign.node "y" on_device : memref<1xf64>
  kernel.launch "sum of x" block (t = 64) {
    %s = kernel.shared memref<64xf64>
    %l = loops.load %x[t]
    %sum = kernel.combine add %l across (t) via %s
    kernel.where t < 1 {
      loops.store %sum, %y[0]
    }
  }
}
// CHECK-LABEL:    .visible .entry sums_sum_of_x(
// CHECK-COUNT-10: shfl.sync.bfly.b32
// CHECK-NOT:      shfl
// CHECK:          st.shared
// CHECK:          bar.sync 0;
// CHECK:          ld.shared
// CHECK:          bar.sync 0;
// CHECK:          add.rn.f64

// Equal kernels are written once.
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
}
// CHECK-NOT: .entry

// Copies in the background: 16 bytes at a time past the first-level cache, or 4; none where a bound does not hold.
loops.func @stages {
  %x = assign.node "x" on_device : memref<8x64xf32>
  %y = assign.node "y" on_device : memref<64xf32>
  kernel.launch "y" block (t = 64) {
    %s = kernel.shared memref<2x64xf32, "ring">
    kernel.copy async %x[0, i] to %s[0, i] over (i = 64) by 4
    kernel.commit
    %sum = loops.reduce add (k = 8) : f32 {
      kernel.wait 0
      kernel.barrier
      kernel.copy async %x[k + 1, i] to %s[k + 1, i] over (i = 64) where k + 1 < 8
      kernel.commit
      %l = loops.load %s[k, -t + 63]
      loops.yield %l
    }
    loops.store %sum, %y[t]
  }
}
// CHECK-LABEL: .visible .entry stages_y(
// CHECK:       cp.async.cg.shared.global [{{%.*}}], [{{%.*}}], 16;
// CHECK-NEXT:  {{.*}}:
// CHECK-NEXT:  cp.async.commit_group;
// CHECK:       cp.async.wait_group 0;
// CHECK-NEXT:  bar.sync 0;
// CHECK:       selp.b32 [[SIZE:%.*]], 4, 0, {{%.*}};
// CHECK-NEXT:  cp.async.ca.shared.global [{{%.*}}], [{{%.*}}], 4, [[SIZE]];
// CHECK-NEXT:  cp.async.commit_group;
// CHECK:       ld.shared

// Products of fragments, which the threads of a warp read as rows of 16 bytes.
loops.func @cores {
  %x = assign.node "x" on_device : memref<16x8xf32>
  %w = assign.node "w" on_device : memref<8x8xf32>
  %y = assign.node "y" on_device : memref<16x8xf32>
  kernel.launch "y" block (g = 8, t = 4) registers (q = 2, h = 2, c = 2) {
    %xs = kernel.shared memref<16x12xf32>
    %ws = kernel.shared memref<8x12xf32>
    kernel.copy %x[i, k] to %xs[i, k] over (i = 16, k = 8) by 4
    kernel.copy %w[i, k] to %ws[i, k] over (i = 8, k = 8) by 4
    kernel.barrier
    %a = loops.load %xs[g + 8*h, t + 4*q]
    %b = loops.load %ws[g, t + 4*q]
    %p = kernel.mma %a, %b rows (h) deep (q) columns (c)
    loops.store %p, %y[g + 8*h, 2*t + c]
  }
}
// CHECK-LABEL:   .visible .entry cores_y(
// CHECK:         ldmatrix.sync.aligned.m8n8.x4.shared.b16 {[[A0:%.*]], [[A1:%.*]], [[A2:%.*]], [[A3:%.*]]},
// CHECK:         ldmatrix.sync.aligned.m8n8.x2.shared.b16 {[[B0:%.*]], [[B1:%.*]]},
// CHECK-COUNT-6: cvt.rna.tf32.f32
// CHECK:         mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32
// CHECK-COUNT-2: st.global.v2.b32

// Four threads have pairs of a row each; they exchange them, so that each stores 16 bytes.
loops.func @quads {
  %x = assign.node "x" on_device : memref<8x64xf32>
  %y = assign.node "y" on_device : memref<8x64xbf16>
  kernel.launch "y" grid (n = 2) block (g = 8, t = 4) registers (tile = 4, c = 2) {
    %v = loops.load %x[g, c + 32*n + 2*t + 8*tile]
    %h = arith.truncf %v : f32 to bf16
    loops.store %h, %y[g, c + 32*n + 2*t + 8*tile]
  }
}
// CHECK-LABEL:   .visible .entry quads_y(
// CHECK-COUNT-2: shfl.sync.bfly.b32 {{%.*}}, {{%.*}}, 1, 31, -1;
// CHECK-COUNT-2: shfl.sync.bfly.b32 {{%.*}}, {{%.*}}, 2, 31, -1;
// CHECK-NOT:     shfl
// CHECK:         st.global.v4.b32
// CHECK-NOT:     st.global
