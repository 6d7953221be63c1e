// RUN: ocannl-opt %s -p 'lower-loops-to-kernels{warpgroups=true shared_bytes=232448 roles=true}' | filecheck %s
// RUN: ocannl-opt %s -p 'lower-loops-to-kernels{warpgroups=true shared_bytes=232448 roles=true}' -t 'ptx{arch=sm_90a}' | filecheck %s --check-prefix PTX
// RUN: ocannl-opt %s -p 'lower-loops-to-kernels{warpgroups=true shared_bytes=232448}' | filecheck %s --check-prefix PLAIN

// 132 blocks walk through the tiles, in the order in which they share operands in the cache.
loops.func @layer attributes {arena = 0 : i64} {
  %w = assign.node "w" on_device because "parameter" : memref<4096x4096xbf16>
  %x = assign.node "x" on_device because "data" : memref<4096x4096xbf16>
  %y = assign.node "y" on_device because "computed by forward" : memref<4096x4096xf32>
  loops.nest "y" (b = 4096, o = 4096) {
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

// PLAIN-NOT: kernel.roles

// CHECK:       kernel.launch "y" grid (worker = 132) block (b_warp = 8, b_lane = 8, o_lane = 4)
// CHECK-NEXT:    [[X:%.*]] = kernel.shared memref<4x128x64xbf16, "swizzled ring">
// CHECK-NEXT:    [[W:%.*]] = kernel.shared memref<4x64x256xbf16, "swizzled ring">
// CHECK-NEXT:    kernel.roles producer registers 40 {
// CHECK-NEXT:      kernel.for (turn = 4) {
// CHECK-NEXT:        kernel.point (b_band = 4, o_block = 16, b_block = 8) number 132*turn + worker {
// CHECK-NEXT:          kernel.for (k_block = 64) {
// CHECK-NEXT:            kernel.fill k_block + 64*turn {
// CHECK-NEXT:              kernel.copy bulk %x[b + 1024*b_band + 128*b_block, k + 64*k_block] to [[X]][k_block + 64*turn, b, k] over (b = 128, k = 64) by 8
// CHECK-NEXT:              kernel.copy bulk %w[k + 64*k_block, o + 256*o_block] to [[W]][k_block + 64*turn, k, o] over (k = 64, o = 256) by 8
// CHECK:         } consumer registers 232 {
// CHECK-NEXT:      kernel.for (turn = 4) {
// CHECK-NEXT:        kernel.point (b_band = 4, o_block = 16, b_block = 8) number 132*turn + worker {
// CHECK-NEXT:          %s = loops.reduce add (k_block = 64) : f32 {
// CHECK-NEXT:            kernel.wait_products 1
// CHECK-NEXT:            kernel.where -k_block + 63 < 62 {
// CHECK-NEXT:              kernel.release k_block + 64*turn - 2
// CHECK-NEXT:            }
// CHECK-NEXT:            kernel.await k_block + 64*turn
// CHECK-NEXT:            loops.reduce add (k_step = 4)
// CHECK:                   kernel.mma async
// CHECK:               kernel.release 64*turn + 62
// CHECK-NEXT:          kernel.release 64*turn + 63
// CHECK-NEXT:          loops.store %s, %y[

// PTX:         .maxntid 384
// PTX:         setmaxnreg.inc.sync.aligned.u32 232;
// No barrier of threads is in the loop, whose products begin while those before are in flight.
// PTX-NOT:     bar.sync
// PTX:         wgmma.wait_group.sync.aligned 1;
// PTX:         mbarrier.arrive.shared::cta.b64 _
// PTX:         mbarrier.try_wait.parity.shared::cta.b64
// PTX-COUNT-4: wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16
// PTX:         wgmma.wait_group.sync.aligned 0;
// PTX:         setmaxnreg.dec.sync.aligned.u32 40;
// PTX:         cp.async.bulk.tensor.2d
