// RUN: ocannl-opt %s --split-input-file -p fuse-operands{l2_bytes=65536} | filecheck %s

// Panels of a prime number of columns: there is a remainder. The sum is in no panels.
// CHECK-LABEL: loops.func @codes
// CHECK:         %[[REST:.*]] = assign.node "w remainder" local : memref<13x1024xf32>
// CHECK:         loops.group "w .. y" (o_block = 4) {
// CHECK-NEXT:      %[[W:.*]] = assign.node "w" local : memref<64x1024xf32>
// CHECK-NEXT:      loops.nest "w" (o = 64, k = 1024) {
// CHECK-NEXT:        loops.load %codes[o + 64*o_block, k]
// CHECK:             loops.store %{{.*}}, %[[W]][o, k]
// CHECK:           loops.nest "y" (b = 8, p = 64) {
// CHECK:               loops.load %[[W]][p, k]
// CHECK:             loops.store %{{.*}}, %y[b, 64*o_block + p]
// CHECK:         loops.nest "w remainder" (o = 13, k = 1024) {
// CHECK-NEXT:      loops.load %codes[o + 256, k]
// CHECK:           loops.store %{{.*}}, %[[REST]][o, k]
// CHECK:         loops.nest "y remainder" (b = 8, p = 13) {
// CHECK:           loops.store %{{.*}}, %y[b, p + 256]
loops.func @codes {
  %codes = assign.node "codes" on_device : memref<269x1024xi8>
  %x = assign.node "x" on_device : memref<8x1024xf32>
  %w = assign.node "w" local : memref<269x1024xf32>
  %y = assign.node "y" on_device : memref<8x269xf32>
  loops.nest "w" (o = 269, k = 1024) {
    %0 = loops.load %codes[o, k]
    %1 = arith.sitofp %0 : i8 to f32
    loops.store %1, %w[o, k]
  }
  loops.nest "y" (b = 8, p = 269) {
    %0 = loops.reduce add (k = 1024) : f32 {
      %1 = loops.load %w[p, k]
      %2 = loops.load %x[b, k]
      %3 = arith.mulf %1, %2 : f32
      loops.yield %3
    }
    loops.store %0, %y[b, p]
  }
}

// -----

// A remainder of one column is no group.
// CHECK-LABEL: loops.func @one_more
// CHECK:         loops.group "w .. y" (o_block = 4) {
// CHECK:         loops.nest "w remainder" (o = 1, k = 1024) {
// CHECK:         loops.nest "y remainder" (b = 8, o = 1) {
loops.func @one_more {
  %codes = assign.node "codes" on_device : memref<257x1024xi8>
  %x = assign.node "x" on_device : memref<8x1024xf32>
  %w = assign.node "w" local : memref<257x1024xf32>
  %y = assign.node "y" on_device : memref<8x257xf32>
  loops.nest "w" (o = 257, k = 1024) {
    %0 = loops.load %codes[o, k]
    %1 = arith.sitofp %0 : i8 to f32
    loops.store %1, %w[o, k]
  }
  loops.nest "y" (b = 8, o = 257) {
    %0 = loops.reduce add (k = 1024) : f32 {
      %1 = loops.load %w[o, k]
      %2 = loops.load %x[b, k]
      %3 = arith.mulf %1, %2 : f32
      loops.yield %3
    }
    loops.store %0, %y[b, o]
  }
}

// -----

// What is as large as the operand is read as fast.
// CHECK-LABEL: loops.func @floats
// CHECK-NOT:     loops.group
loops.func @floats {
  %v = assign.node "v" on_device : memref<256x1024xf32>
  %x = assign.node "x" on_device : memref<8x1024xf32>
  %w = assign.node "w" local : memref<256x1024xf32>
  %y = assign.node "y" on_device : memref<8x256xf32>
  loops.nest "w" (o = 256, k = 1024) {
    %0 = loops.load %v[o, k]
    %1 = arith.negf %0 : f32
    loops.store %1, %w[o, k]
  }
  loops.nest "y" (b = 8, o = 256) {
    %0 = loops.reduce add (k = 1024) : f32 {
      %1 = loops.load %w[o, k]
      %2 = loops.load %x[b, k]
      %3 = arith.mulf %1, %2 : f32
      loops.yield %3
    }
    loops.store %0, %y[b, o]
  }
}

// -----

// The codes are written in between: the operand is of the old ones.
// CHECK-LABEL: loops.func @written
// CHECK-NOT:     loops.group
loops.func @written {
  %codes = assign.node "codes" on_device : memref<256x1024xi8>
  %x = assign.node "x" on_device : memref<8x1024xf32>
  %w = assign.node "w" local : memref<256x1024xf32>
  %y = assign.node "y" on_device : memref<8x256xf32>
  loops.nest "w" (o = 256, k = 1024) {
    %0 = loops.load %codes[o, k]
    %1 = arith.sitofp %0 : i8 to f32
    loops.store %1, %w[o, k]
  }
  loops.nest "codes" (o = 256, k = 1024) {
    %0 = arith.constant 0 : i8
    loops.store %0, %codes[o, k]
  }
  loops.nest "y" (b = 8, o = 256) {
    %0 = loops.reduce add (k = 1024) : f32 {
      %1 = loops.load %w[o, k]
      %2 = loops.load %x[b, k]
      %3 = arith.mulf %1, %2 : f32
      loops.yield %3
    }
    loops.store %0, %y[b, o]
  }
}

// -----

// What a single row is multiplied with is no product of matrices, and in panels all the same.
// CHECK-LABEL: loops.func @row
// CHECK:         loops.group "steps .. y" (o_block = 8) {
// CHECK-NEXT:      %{{.*}} = assign.node "steps" local : memref<512x128xf32>
// CHECK:           loops.nest "y" (o = 512) {
loops.func @row {
  %codes = assign.node "codes" on_device : memref<4096x128xi8>
  %x = assign.node "x" on_device : memref<128xf32>
  %steps = assign.node "steps" local : memref<4096x128xf32>
  %y = assign.node "y" on_device : memref<4096xf32>
  loops.nest "steps" (o = 4096, k = 128) {
    %0 = loops.load %codes[o, k]
    %1 = arith.sitofp %0 : i8 to f32
    loops.store %1, %steps[o, k]
  }
  loops.nest "y" (o = 4096) {
    %0 = loops.reduce add (k = 128) : f32 {
      %1 = loops.load %steps[o, k]
      %2 = loops.load %x[k]
      %3 = arith.mulf %1, %2 : f32
      loops.yield %3
    }
    loops.store %0, %y[o]
  }
}
