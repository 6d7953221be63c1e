// RUN: ocannl-opt %s -p 'lower-loops-to-kernels{warpgroups=true shared_bytes=232448}' | filecheck %s
// RUN: ocannl-opt %s -p 'lower-loops-to-kernels{warpgroups=true shared_bytes=232448}' -t 'ptx{arch=sm_90a}' | filecheck %s --check-prefix PTX

// A warpgroup has 64 rows and all columns of a tile; its operands lie swizzled, one of them transposed.
loops.func @layer attributes {arena = 0 : i64} {
  %w = assign.node "w" on_device because "parameter" : memref<4096x512xbf16>
  %x = assign.node "x" on_device because "data" : memref<4096x4096xbf16>
  %y = assign.node "y" on_device because "computed by forward" : memref<4096x512xf32>
  loops.nest "y" (b = 4096, o = 512) {
    %s = loops.reduce add (k = 4096) : f32 {
      %0 = loops.load %x[b, k]
      %1 = arith.extf %0 : bf16 to f32
      %2 = loops.load %w[k, o]
      %3 = arith.extf %2 : bf16 to f32
      %4 = arith.mulf %1, %3 : f32
      loops.yield %4
    }
    loops.store %s, %y[b, o]
  }
}
// CHECK-LABEL: loops.func @layer
// CHECK:         kernel.launch "y" grid (b_block = 32, o_block = 4) block (b_warp = 8, b_lane = 8, o_lane = 4) registers (o_tile = 16, k_half = 2, b_half = 2, o_pair = 2, k_pair = 2) {
// CHECK-NEXT:      [[X:%.*]] = kernel.shared memref<7x128x64xbf16, "swizzled ring">
// CHECK-NEXT:      [[W:%.*]] = kernel.shared memref<7x64x128xbf16, "swizzled ring">
// CHECK-NEXT:      kernel.copy bulk %x[b + 128*b_block, k] to [[X]][0, b, k] over (b = 128, k = 64) by 8
// CHECK-NEXT:      kernel.copy bulk %w[k, o + 128*o_block] to [[W]][0, k, o] over (k = 64, o = 128) by 8
// CHECK:           loops.reduce add (k_block = 64) : f32 {
// CHECK-NEXT:        kernel.wait 4
// CHECK-NEXT:        kernel.wait_products 1
// CHECK-NEXT:        kernel.barrier
// CHECK-NEXT:        loops.reduce add (k_step = 4) : f32 {
// CHECK-NEXT:          [[A:%.*]] = loops.load [[X]][k_block, 8*b_half + b_lane + 16*b_warp, 8*k_half + k_pair + 16*k_step + 2*o_lane]
// CHECK-NEXT:          [[B:%.*]] = loops.load [[W]][k_block, 8*k_half + k_pair + 16*k_step + 2*o_lane, b_lane + 8*o_tile]
// CHECK:               kernel.mma async [[A]], [[B]] rows (b_half) deep (k_half, k_pair) columns (o_pair)

// PTX:       .target sm_90a
// A thread copies, all wait for the phase of an mbarrier; nothing is fenced afterwards.
// PTX:       .param .align 64 .b8 [[MAP:.*]][128]
// PTX:       @[[P:%p.*]] mbarrier.init.shared::cta.b64 [{{.*}}], 1;
// PTX:       fence.proxy.async.shared::cta;
// PTX:       bar.sync 0;
// PTX:       @[[P]] mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [{{.*}}], 16384;
// PTX:       @[[P]] cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [{{.*}}], [{{.*}}, {{{.*}}}], [{{.*}}];
// PTX:       @[[P]] mbarrier.arrive.shared::cta.b64 _, [{{.*}}];
// PTX-NOT:   fence.proxy
// PTX-NOT:   cp.async.cg
// The products of the step before are in flight, and those of this one will be.
// PTX:       wgmma.fence.sync.aligned;
// PTX-NEXT:  wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {{{.*}}}, {{.*}}, 1, 1, 1, 0, 1;
// PTX-NEXT:  wgmma.mma_async
// PTX-NEXT:  wgmma.mma_async
// PTX-NEXT:  wgmma.mma_async
// PTX-NEXT:  wgmma.commit_group.sync.aligned;
// PTX-NOT:   wgmma.wait_group.sync.aligned 0;
// PTX:       wgmma.wait_group.sync.aligned 1;
// PTX:       bar.sync 0;
// PTX:       wgmma.wait_group.sync.aligned 0;
