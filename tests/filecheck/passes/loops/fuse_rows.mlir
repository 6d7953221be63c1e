// RUN: ocannl-opt %s -p fuse-rows | filecheck %s
// RUN: ocannl-opt %s -p fuse-rows,lower-loops-to-kernels | filecheck %s --check-prefix=KERNEL

// What passes between the nests lives inside the group; threads meet before they read what others wrote.
loops.func @norm {
  %x = assign.node "x" constant because "data" : memref<512x1024xf32>
  %s = assign.node "s" local because "intermediate value" : memref<512xf32>
  %y = assign.node "y" on_device because "computed by forward" : memref<512x1024xf32>
  loops.nest "s" (b = 512) {
    %0 = loops.reduce add (i = 1024) : f32 {
      %1 = loops.load %x[b, i]
      loops.yield %1
    }
    loops.store %0, %s[b]
  }
  loops.nest "y" (b = 512, i = 1024) {
    %2 = loops.load %x[b, i]
    %3 = loops.load %s[b]
    %4 = arith.divf %2, %3 : f32
    loops.store %4, %y[b, i]
  }
}

// CHECK-LABEL: loops.func @norm {
// CHECK-NOT:     assign.node "s"
// CHECK:         loops.group "s .. y" (b = 512) {
// CHECK-NEXT:      %s = assign.node "s" local because "intermediate value" : memref<1xf32>
// CHECK-NEXT:      loops.nest "s" () {
// CHECK-NEXT:        %0 = loops.reduce add (i = 1024) : f32 {
// CHECK:             loops.store %0, %s[0]
// CHECK:           loops.nest "y" (i = 1024) {

// KERNEL-LABEL: loops.func @norm {
// KERNEL:         kernel.launch "s .. y" grid (b = 512) block (lane = 256) registers (part = 4) {
// KERNEL-NEXT:      [[SCRATCH:%.*]] = kernel.shared memref<256xf32>
// KERNEL-NEXT:      %s = kernel.shared memref<1xf32>
// KERNEL:           [[SUM:%.*]] = kernel.combine add %{{.*}} across (lane) via [[SCRATCH]]
// KERNEL-NEXT:      kernel.where lane < 1 {
// KERNEL-NEXT:        loops.store [[SUM]], %s[0]
// KERNEL-NEXT:      }
// KERNEL-NEXT:      kernel.barrier
// KERNEL-NEXT:      %{{.*}} = loops.load %x[b, 4*lane + part]

// A sum over the rows is none of a row, and a product of matrices has tiles.
loops.func @apart {
  %x = assign.node "x" constant because "data" : memref<64x64xf32>
  %w = assign.node "w" constant because "data" : memref<64x64xf32>
  %s = assign.node "s" on_device because "computed by forward" : memref<64xf32>
  %t = assign.node "t" on_device because "computed by forward" : memref<64xf32>
  %y = assign.node "y" on_device because "computed by forward" : memref<64x64xf32>
  loops.nest "s" (b = 64) {
    %0 = loops.reduce add (i = 64) : f32 {
      %1 = loops.load %x[b, i]
      loops.yield %1
    }
    loops.store %0, %s[b]
  }
  loops.nest "t" (i = 64) {
    %2 = loops.reduce add (b = 64) : f32 {
      %3 = loops.load %x[b, i]
      loops.yield %3
    }
    loops.store %2, %t[i]
  }
  loops.nest "y" (b = 64, o = 64) {
    %4 = loops.reduce add (i = 64) : f32 {
      %5 = loops.load %x[b, i]
      %6 = loops.load %w[o, i]
      %7 = arith.mulf %5, %6 : f32
      loops.yield %7
    }
    loops.store %4, %y[b, o]
  }
}
// CHECK-LABEL: loops.func @apart {
// CHECK-NOT:     loops.group

// What a group adds up is divided in its kernel, not beside the reduction of the results.
loops.func @after_groups {
  %x = assign.node "x" constant because "data" : memref<4x512x64xf32>
  %t = assign.node "t" local because "partial results" : memref<512x64xf32>
  %y = assign.node "y" on_device because "computed by forward" : memref<512x64xf32>
  %s = assign.node "s" on_device because "computed by forward" : memref<512xf32>
  loops.nest "reset" (b = 512, i = 64) {
    %zero = arith.constant 0.0 : f32
    loops.store %zero, %t[b, i]
  }
  loops.group "t" (block = 4) {
    loops.nest "t" (b = 512, i = 64) {
      %0 = loops.load %t[b, i]
      %1 = loops.load %x[block, b, i]
      %2 = arith.addf %0, %1 : f32
      loops.store %2, %t[b, i]
    }
  }
  loops.nest "y" (b = 512, i = 64) {
    %3 = loops.load %t[b, i]
    %4 = arith.constant 4.0 : f32
    %5 = arith.divf %3, %4 : f32
    loops.store %5, %y[b, i]
  }
  loops.nest "s" (b = 512) {
    %6 = loops.reduce add (i = 64) : f32 {
      %7 = loops.load %y[b, i]
      loops.yield %7
    }
    loops.store %6, %s[b]
  }
}

// CHECK-LABEL: loops.func @after_groups {
// CHECK:         loops.group "t" (block = 4) {
// CHECK-NOT:     loops.group
// CHECK:         loops.nest "y" (b = 512, i = 64) {
// CHECK:         loops.nest "s" (b = 512) {
