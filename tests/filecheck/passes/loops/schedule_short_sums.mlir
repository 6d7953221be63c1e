// RUN: ocannl-opt %s --cpu x86-64-v3 --split-input-file -p schedule | filecheck %s

// Results are most of what a product of short sums moves: they are stored row by row, though the first-level cache does
// not hold the columns.
// CHECK: loops.nest "y" (i = 1000, j{{.*}}) schedule <order = (i, j{{.*}}),
loops.func @short {
  %x = assign.node "x" on_device : memref<1000x17xf32>
  %w = assign.node "w" on_device : memref<17x512xf32>
  %y = assign.node "y" on_device : memref<1000x512xf32>
  loops.nest "y" (i = 1000, j = 512) {
    %sum = loops.reduce add (k = 17) : f32 {
      %xv = loops.load %x[i, k]
      %wv = loops.load %w[k, j]
      %p = arith.mulf %xv, %wv : f32
      loops.yield %p
    }
    loops.store %sum, %y[i, j]
  }
}

// -----

// Sums that are four times as long read the columns for all rows, in panels.
// CHECK: loops.nest "y" {{.*}} schedule <order = (j{{.*}}, i),
loops.func @longer {
  %x = assign.node "x" on_device : memref<1000x68xf32>
  %w = assign.node "w" on_device : memref<68x512xf32>
  %y = assign.node "y" on_device : memref<1000x512xf32>
  loops.nest "y" (i = 1000, j = 512) {
    %sum = loops.reduce add (k = 68) : f32 {
      %xv = loops.load %x[i, k]
      %wv = loops.load %w[k, j]
      %p = arith.mulf %xv, %wv : f32
      loops.yield %p
    }
    loops.store %sum, %y[i, j]
  }
}

// -----

// So are those of f64, whose columns take 68 KiB of the second-level cache.
// CHECK-LABEL: loops.func @wide
// CHECK: loops.nest "y" (i = 1000, j{{.*}}) schedule <order = (i, j{{.*}}),
loops.func @wide {
  %x = assign.node "x" on_device : memref<1000x17xf64>
  %w = assign.node "w" on_device : memref<17x512xf64>
  %y = assign.node "y" on_device : memref<1000x512xf64>
  loops.nest "y" (i = 1000, j = 512) {
    %sum = loops.reduce add (k = 17) : f64 {
      %xv = loops.load %x[i, k]
      %wv = loops.load %w[k, j]
      %p = arith.mulf %xv, %wv : f64
      loops.yield %p
    }
    loops.store %sum, %y[i, j]
  }
}
