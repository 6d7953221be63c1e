// RUN: ocannl-opt %s -t 'ptx{arch=sm_90a}' | filecheck %s
// RUN: not ocannl-opt %s -t 'ptx{arch=sm_90}' 2>&1 | filecheck %s --check-prefix SM90
// RUN: not ocannl-opt %s -t metal 2>&1 | filecheck %s --check-prefix METAL

// Threads read stages, and combine at a barrier of their own.
loops.func @most {
  %x = assign.node "x" on_device : memref<4x320x32xf32>
  %y = assign.node "y" on_device : memref<4x32xf32>
  kernel.launch "y" grid (worker = 3) block (part = 8, t = 32) {
    %s = kernel.shared memref<3x64x32xf32, "swizzled ring">
    %scratch = kernel.shared memref<256xf32>
    kernel.roles producer registers 40 {
      kernel.for (turn = 2) {
        kernel.point (b = 4) number 3*turn + worker {
          kernel.for (step = 5) {
            kernel.fill 5*turn + step {
              kernel.copy bulk %x[b, i + 64*step, c] to %s[5*turn + step, i, c] over (i = 64, c = 32) by 4
            }
          }
        }
      }
    } consumer registers 232 {
      kernel.for (turn = 2) {
        kernel.point (b = 4) number 3*turn + worker {
          %most = loops.reduce max (step = 5) : f32 {
            kernel.await 5*turn + step
            %part = loops.reduce max (i = 8) : f32 {
              %0 = loops.load %s[5*turn + step, 8*part + i, t]
              loops.yield %0
            }
            kernel.release 5*turn + step
            loops.yield %part
          }
          %all = kernel.combine max %most across (part) via %scratch
          kernel.where part < 1 {
            loops.store %all, %y[b, t]
          }
        }
      }
    }
  }
}

// SM90: error: {{.*}}: kernel 'y': its threads have roles, and sm_90 has none: run lower-loops-to-kernels{roles=false}
// METAL: error: {{.*}}: kernel 'y': its threads have roles: run lower-loops-to-kernels{roles=false}

// 256 threads compute, and a warpgroup more has the warp that copies.
// CHECK:       .maxntid 384
// Of three stages, each has come when one thread says so, and is empty when eight warps do.
// CHECK-COUNT-3: mbarrier.init.shared::cta.b64 [{{.*}}], 1;
// CHECK-COUNT-3: mbarrier.init.shared::cta.b64 [{{.*}}], 8;
// CHECK:       fence.proxy.async.shared::cta;
// CHECK:       bar.sync 0;
// CHECK:       setmaxnreg.inc.sync.aligned.u32 232;
// CHECK:       mbarrier.try_wait.parity.shared::cta.b64 p
// What threads have read they say to the hardware that overwrites it, and a thread arrives for its warp.
// CHECK:       fence.proxy.async.shared::cta;
// CHECK:       bar.warp.sync
// CHECK:       mbarrier.arrive.shared::cta.b64 _
// CHECK:       bar.sync 1, 256;
// CHECK:       bar.sync 1, 256;
// CHECK:       setmaxnreg.dec.sync.aligned.u32 40;
// CHECK:       mbarrier.try_wait.parity.shared::cta.b64 p
// CHECK:       mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [{{.*}}], 8192;
// CHECK:       cp.async.bulk.tensor.3d
// CHECK:       mbarrier.arrive.shared::cta.b64 _
