// RUN: ocannl-opt %s --cpu znver4 --split-input-file -p schedule | filecheck %s --check-prefix HALVES
// RUN: ocannl-opt %s --cpu icelake-server --split-input-file -p schedule | filecheck %s --check-prefix WHOLE

// 20 columns are a vector and a quarter. Where a half takes half the time of a whole one, the rest has a tile of its own.
// HALVES-LABEL: loops.func @columns
// HALVES:         loops.nest "y" (i = 128, j = 20) schedule <order = (i, j), rows = i : 16, lanes = j : 16>
// WHOLE-LABEL:  loops.func @columns
// WHOLE:          loops.nest "y" (i = 128, j = 20) schedule <{{.*}}lanes = j : 32>
loops.func @columns {
  %x = assign.node "x" on_device : memref<128x128xf32>
  %w = assign.node "w" on_device : memref<128x20xf32>
  %y = assign.node "y" on_device : memref<128x20xf32>
  loops.nest "y" (i = 128, j = 20) {
    %sum = loops.reduce add (k = 128) : f32 {
      %xv = loops.load %x[i, k]
      %wv = loops.load %w[k, j]
      %p = arith.mulf %xv, %wv : f32
      loops.yield %p
    }
    loops.store %sum, %y[i, j]
  }
}

// -----

// Rows of 4096 bytes meet in one set of the first-level cache, which holds 8 of them in one, and 12 in the other.
// HALVES-LABEL: loops.func @rows
// HALVES:         loops.nest "y" (i = 1024, j = 16) schedule <{{.*}}rows = i : 8, lanes = j : 16>
// WHOLE-LABEL:  loops.func @rows
// WHOLE:          loops.nest "y" (i = 1024, j = 16) schedule <{{.*}}rows = i : 12, lanes = j : 16>
loops.func @rows {
  %x = assign.node "x" on_device : memref<1024x1024xf32>
  %w = assign.node "w" on_device : memref<1024x16xf32>
  %y = assign.node "y" on_device : memref<1024x16xf32>
  loops.nest "y" (i = 1024, j = 16) {
    %sum = loops.reduce add (k = 1024) : f32 {
      %xv = loops.load %x[i, k]
      %wv = loops.load %w[k, j]
      %p = arith.mulf %xv, %wv : f32
      loops.yield %p
    }
    loops.store %sum, %y[i, j]
  }
}

// -----

// So would 16 lanes that read an element each of such rows.
// HALVES-LABEL: loops.func @lanes
// HALVES:         loops.nest "y" (i = 1024, j = 9) schedule <{{.*}}rows = i : 8, lanes = j : 8, {{.*}}>
// WHOLE-LABEL:  loops.func @lanes
loops.func @lanes {
  %x = assign.node "x" on_device : memref<1024x1024xf64>
  %w = assign.node "w" on_device : memref<1024x9xf64>
  %y = assign.node "y" on_device : memref<1024x9xf64>
  loops.nest "y" (i = 1024, j = 9) {
    %sum = loops.reduce add (k = 1024) : f64 {
      %xv = loops.load %x[i, k]
      %wv = loops.load %w[k, j]
      %p = arith.mulf %xv, %wv : f64
      loops.yield %p
    }
    loops.store %sum, %y[i, j]
  }
}
