// RUN: ocannl-opt %s --cpu x86-64-v3 --split-input-file -p schedule | filecheck %s

// Rows that the second-level cache does not hold: 12 strips of 66 rows, in each of which all panels are read. The copy
// is made before, 8 panels at a time.
// CHECK-LABEL: loops.func @large
// CHECK:         loops.nest "w.packed" (j_panel = 40, k = 480, j = 16) schedule <order = (k, j_panel, j), parallel = ({{.*}}), lanes = j : 16, strips = j_panel : 8> {
// CHECK:         loops.nest "y" (i = 768, j_panel = 40, j = 16) schedule <order = (j_panel, j, i), parallel = (i : 66, {{.*}}), rows = i : 6, lanes = j : 16, strips = i : 66> {
loops.func @large indices (step = 3) {
  %x = assign.node "x" on_device : memref<3x768x480xf32>
  %w = assign.node "w" on_device : memref<480x640xf32>
  %y = assign.node "y" on_device : memref<768x640xf32>
  loops.nest "y" (i = 768, j = 640) {
    %sum = loops.reduce add (k = 480) : f32 {
      %xv = loops.load %x[step, i, k]
      %wv = loops.load %w[k, j]
      %p = arith.mulf %xv, %wv : f32
      loops.yield %p
    }
    loops.store %sum, %y[i, j]
  }
}

// -----

// The rows of a first operand that is stored by columns are packed as well: strips of their panels, each of
// which is a tile.
// CHECK-LABEL: loops.func @by_columns
// CHECK:         loops.nest "y" (i_panel = 128, i = 6, j_panel = 40, j = 16) schedule <order = (j_panel, j, i_panel, i), {{.*}}strips = i_panel : 11> {
loops.func @by_columns {
  %x = assign.node "x" on_device : memref<480x768xf32>
  %w = assign.node "w" on_device : memref<480x640xf32>
  %y = assign.node "y" on_device : memref<768x640xf32>
  loops.nest "y" (i = 768, j = 640) {
    %sum = loops.reduce add (k = 480) : f32 {
      %xv = loops.load %x[k, i]
      %wv = loops.load %w[k, j]
      %p = arith.mulf %xv, %wv : f32
      loops.yield %p
    }
    loops.store %sum, %y[i, j]
  }
}

// -----

// Rows do not stay in that cache where they and the results of a panel fill more than four fifths of it.
// CHECK-LABEL: loops.func @most_of_the_cache
// CHECK:         loops.nest "y" (i = 216, j_panel = 40, j = 16) schedule <{{.*}}strips = i :
loops.func @most_of_the_cache {
  %x = assign.node "x" on_device : memref<216x480xf32>
  %w = assign.node "w" on_device : memref<480x640xf32>
  %y = assign.node "y" on_device : memref<216x640xf32>
  loops.nest "y" (i = 216, j = 640) {
    %sum = loops.reduce add (k = 480) : f32 {
      %xv = loops.load %x[i, k]
      %wv = loops.load %w[k, j]
      %p = arith.mulf %xv, %wv : f32
      loops.yield %p
    }
    loops.store %sum, %y[i, j]
  }
}

// -----

// Not rows that stay in that cache, nor where panels would come from memory in each strip.
// CHECK-LABEL: loops.func @small
// CHECK-NOT:     strips = i
// CHECK-LABEL: loops.func @wide
// CHECK-NOT:     strips = i
loops.func @small {
  %x = assign.node "x" on_device : memref<128x480xf32>
  %w = assign.node "w" on_device : memref<480x640xf32>
  %y = assign.node "y" on_device : memref<128x640xf32>
  loops.nest "y" (i = 128, j = 640) {
    %sum = loops.reduce add (k = 480) : f32 {
      %xv = loops.load %x[i, k]
      %wv = loops.load %w[k, j]
      %p = arith.mulf %xv, %wv : f32
      loops.yield %p
    }
    loops.store %sum, %y[i, j]
  }
}
loops.func @wide {
  %x = assign.node "x" on_device : memref<256x768xf32>
  %w = assign.node "w" on_device : memref<768x50304xf32>
  %y = assign.node "y" on_device : memref<256x50304xf32>
  loops.nest "y" (i = 256, j = 50304) {
    %sum = loops.reduce add (k = 768) : f32 {
      %xv = loops.load %x[i, k]
      %wv = loops.load %w[k, j]
      %p = arith.mulf %xv, %wv : f32
      loops.yield %p
    }
    loops.store %sum, %y[i, j]
  }
}

// -----

// A copy that transposes squares goes through all columns of 256 rows after the other.
// CHECK-LABEL: loops.func @transposed
// CHECK:         loops.nest "y" (i = 768, j = 2000) schedule <order = (i, j), parallel = ({{.*}}), rows = i : 8, lanes = j : 8, strips = j : 256> {
// CHECK:         loops.nest "z" (i = 768, k = 50, j = 40) schedule <{{.*}}order = (i, k, j), {{.*}}rows = i : 8, lanes = j : 8, strips = k : 6> {
loops.func @transposed {
  %x = assign.node "x" on_device : memref<2000x768xf32>
  %w = assign.node "w" on_device : memref<40x50x768xf32>
  %y = assign.node "y" on_device : memref<768x2000xf32>
  %z = assign.node "z" on_device : memref<768x50x40xf32>
  loops.nest "y" (i = 768, j = 2000) {
    %xv = loops.load %x[j, i]
    loops.store %xv, %y[i, j]
  }
  loops.nest "z" (i = 768, k = 50, j = 40) {
    %wv = loops.load %w[j, k, i]
    loops.store %wv, %z[i, k, j]
  }
}

// -----

// Not where the second-level cache holds the matrix.
// CHECK-LABEL: loops.func @transposed_near
// CHECK-NOT:     strips
loops.func @transposed_near {
  %x = assign.node "x" on_device : memref<300x200xf32>
  %y = assign.node "y" on_device : memref<200x300xf32>
  loops.nest "y" (i = 200, j = 300) {
    %xv = loops.load %x[j, i]
    loops.store %xv, %y[i, j]
  }
}
