// RUN: ocannl-opt %s -p lower-loops-to-kernels --verify-diagnostics | filecheck %s

// CHECK: sums in kernels have no blocks, which schedules for a CPU give: kernels are made of nests without schedules, as by -p gpu
loops.func @scheduled {
  %x = assign.node "x" constant : memref<64x256xf32>
  %y = assign.node "y" on_device : memref<64xf32>
  loops.nest "y" (b = 64) schedule <order = (b), lanes = d : 32> {
    %s = loops.reduce add (d = 256) blocks 16 compensated : f32 {
      %v = loops.load %x[b, d]
      loops.yield %v
    }
    loops.store %s, %y[b]
  }
}
