// RUN: ocannl-opt %s -p gather-windows | filecheck %s

// The gradient of the input of a convolution: each element sums up what reaches it, and nothing is reset.
loops.func @gradient {
  %g = assign.node "g" constant because "data" : memref<8x6x32xf32>
  %w = assign.node "w" constant because "data" : memref<32x3x16xf32>
  %x = assign.node "x" on_device because "gradient" : memref<8x8x16xf32>
  loops.nest "x reset" (b = 8, h = 8, c = 16) {
    %zero = arith.constant 0.0 : f32
    loops.store %zero, %x[b, h, c]
  }
  loops.nest "x" (b = 8, k = 3, h = 6, c = 16) {
    %sum = loops.reduce add (o = 32) : f32 {
      %0 = loops.load %g[b, h, o]
      %1 = loops.load %w[o, k, c]
      %2 = arith.mulf %0, %1 : f32
      loops.yield %2
    }
    %3 = loops.load %x[b, h + k, c]
    %4 = arith.addf %3, %sum : f32
    loops.store %4, %x[b, h + k, c]
  }
}

// CHECK-LABEL: loops.func @gradient {
// CHECK:         %[[P:.*]] = assign.node "g.padded" local because "g with zeros around" : memref<8x10x32xf32>
// CHECK-NEXT:    loops.nest "g.padded reset" (i0 = 8, i1 = 10, i2 = 32) {
// CHECK:         loops.nest "g.padded" (i0 = 8, i1 = 6, i2 = 32) {
// CHECK-NEXT:      %[[G:.*]] = loops.load %g[i0, i1, i2]
// CHECK-NEXT:      loops.store %[[G]], %[[P]][i0, i1 + 2, i2]
// CHECK:         loops.nest "x" (b = 8, h = 8, c = 16) {
// CHECK-NEXT:      %[[S:.*]] = loops.reduce add (k = 3, o = 32) : f32 {
// CHECK-NEXT:        loops.load %[[P]][b, h - k + 2, o]
// CHECK-NEXT:        loops.load %w[o, k, c]
// CHECK:           loops.store %[[S]], %x[b, h, c]
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// A stride of 2: even elements have two offsets, odd ones one. What was there before stays.
loops.func @strided {
  %g = assign.node "g" constant because "data" : memref<6x32xbf16>
  %w = assign.node "w" constant because "data" : memref<3x32xbf16>
  %x = assign.node "x" on_device because "gradient" : memref<20xf32>
  loops.nest "x" (h = 6, k = 3) {
    %sum = loops.reduce add (o = 32) : f32 {
      %0 = loops.load %g[h, o]
      %1 = arith.extf %0 : bf16 to f32
      %2 = loops.load %w[k, o]
      %3 = arith.extf %2 : bf16 to f32
      %4 = arith.mulf %1, %3 : f32
      loops.yield %4
    }
    %5 = loops.load %x[2*h + k + 1]
    %6 = arith.addf %sum, %5 : f32
    loops.store %6, %x[2*h + k + 1]
  }
}
// CHECK-LABEL: loops.func @strided {
// CHECK:         assign.node "g.padded" local because "g with zeros around" : memref<8x32xbf16>
// CHECK:         loops.nest "x" (h = 7) {
// CHECK-NEXT:      loops.reduce add (k = 2, o = 32) : f32 {
// CHECK-NEXT:        loops.load %{{.*}}[h - k + 1, o]
// CHECK:             loops.load %w[2*k, o]
// CHECK:           loops.load %x[2*h + 1]
// CHECK:         loops.nest "x" (h = 6) {
// CHECK-NEXT:      loops.reduce add (o = 32) : f32 {
// CHECK-NEXT:        loops.load %{{.*}}[h + 1, o]
// CHECK:             loops.load %w[1, o]
// CHECK:           loops.load %x[2*h + 2]

// Of a local node, cells that nothing reads are not computed, here those of a padding. So fewer zeros are around.
loops.func @trimmed {
  %g = assign.node "g" constant because "data" : memref<8x6x32xf32>
  %w = assign.node "w" constant because "data" : memref<32x3x16xf32>
  %x = assign.node "x" local because "gradient" : memref<8x8x16xf32>
  %y = assign.node "y" on_device because "gradient" : memref<8x6x16xf32>
  loops.nest "x reset" (b = 8, h = 8, c = 16) {
    %zero = arith.constant 0.0 : f32
    loops.store %zero, %x[b, h, c]
  }
  loops.nest "x" (b = 8, k = 3, h = 6, c = 16) {
    %sum = loops.reduce add (o = 32) : f32 {
      %0 = loops.load %g[b, h, o]
      %1 = loops.load %w[o, k, c]
      %2 = arith.mulf %0, %1 : f32
      loops.yield %2
    }
    %3 = loops.load %x[b, h + k, c]
    %4 = arith.addf %3, %sum : f32
    loops.store %4, %x[b, h + k, c]
  }
  loops.nest "y" (b = 8, h = 6, c = 16) {
    %5 = loops.load %x[b, h + 1, c]
    loops.store %5, %y[b, h, c]
  }
}
// CHECK-LABEL: loops.func @trimmed {
// CHECK:         assign.node "g.padded" local because "g with zeros around" : memref<8x8x32xf32>
// CHECK-NOT:     "x reset"
// CHECK:         loops.nest "x" (b = 8, h = 6, c = 16) {
// CHECK:             loops.load %{{.*}}[b, h - k + 2, o]
// CHECK:           loops.store %{{.*}}, %x[b, h + 1, c]

// What one nest computes is computed where the zeros are around, and read from there; not so what is changed.
loops.func @in_place {
  %d = assign.node "d" constant because "data" : memref<8x6x32xf32>
  %w = assign.node "w" constant because "data" : memref<32x3x16xf32>
  %g = assign.node "g" local because "gradient" : memref<8x6x32xf32>
  %s = assign.node "s" on_device because "gradient" : memref<32xf32>
  %x = assign.node "x" on_device because "gradient" : memref<8x8x16xf32>
  %z = assign.node "z" on_device because "gradient" : memref<8x8x16xf32>
  %h = assign.node "h" local because "gradient" : memref<8x6x32xf32>
  loops.nest "g" (b = 8, h = 6, o = 32) {
    %0 = loops.load %d[b, h, o]
    %1 = arith.negf %0 : f32
    loops.store %1, %g[b, h, o]
    loops.store %1, %h[b, h, o]
  }
  loops.nest "s" (o = 32) {
    %2 = loops.reduce add (b = 8, h = 6) : f32 {
      %3 = loops.load %g[b, h, o]
      loops.yield %3
    }
    loops.store %2, %s[o]
  }
  loops.nest "x" (b = 8, k = 3, h = 6, c = 16) {
    %sum = loops.reduce add (o = 32) : f32 {
      %4 = loops.load %g[b, h, o]
      %5 = loops.load %w[o, k, c]
      %6 = arith.mulf %4, %5 : f32
      loops.yield %6
    }
    %7 = loops.load %x[b, h + k, c]
    %8 = arith.addf %7, %sum : f32
    loops.store %8, %x[b, h + k, c]
  }
  loops.nest "h" (b = 8) {
    %9 = arith.constant 1.0 : f32
    loops.store %9, %h[b, 0, 0]
  }
  loops.nest "z" (b = 8, k = 3, h = 6, c = 16) {
    %sum = loops.reduce add (o = 32) : f32 {
      %4 = loops.load %h[b, h, o]
      %5 = loops.load %w[o, k, c]
      %6 = arith.mulf %4, %5 : f32
      loops.yield %6
    }
    %7 = loops.load %z[b, h + k, c]
    %8 = arith.addf %7, %sum : f32
    loops.store %8, %z[b, h + k, c]
  }
}
// CHECK-LABEL: loops.func @in_place {
// CHECK:         %g = assign.node "g" virtual because "computed where it has zeros around"
// CHECK:         loops.nest "g.padded reset" (i0 = 8, i1 = 10, i2 = 32) {
// CHECK:         loops.nest "g" (b = 8, h = 6, o = 32) {
// CHECK:           loops.store %{{.*}}, %[[G:.*]][b, h + 2, o]
// CHECK-NEXT:      loops.store %{{.*}}, %h[b, h, o]
// CHECK:         loops.nest "s" (o = 32) {
// CHECK:             loops.load %[[G]][b, h + 2, o]
// CHECK-NOT:     loops.nest "g.padded
// CHECK:         loops.nest "x" (b = 8, h = 8, c = 16) {
// CHECK:             loops.load %[[G]][b, h - k + 2, o]
// CHECK:         loops.nest "h" (b = 8) {
// CHECK:         loops.nest "h.padded" (i0 = 8, i1 = 6, i2 = 32) {

// Phases that cover together what is read need no reset either.
loops.func @phases {
  %g = assign.node "g" constant because "data" : memref<6x32xf32>
  %w = assign.node "w" constant because "data" : memref<3x32xf32>
  %x = assign.node "x" local because "gradient" : memref<13xf32>
  %y = assign.node "y" on_device because "gradient" : memref<12xf32>
  loops.nest "x reset" (h = 13) {
    %zero = arith.constant 0.0 : f32
    loops.store %zero, %x[h]
  }
  loops.nest "x" (h = 6, k = 3) {
    %sum = loops.reduce add (o = 32) : f32 {
      %0 = loops.load %g[h, o]
      %1 = loops.load %w[k, o]
      %2 = arith.mulf %0, %1 : f32
      loops.yield %2
    }
    %3 = loops.load %x[2*h + k]
    %4 = arith.addf %3, %sum : f32
    loops.store %4, %x[2*h + k]
  }
  loops.nest "y" (h = 12) {
    %5 = loops.load %x[h + 1]
    loops.store %5, %y[h]
  }
}
// CHECK-LABEL: loops.func @phases {
// CHECK:         assign.node "g.padded" local because "g with zeros around" : memref<7x32xf32>
// CHECK-NOT:     "x reset"
// CHECK:         loops.nest "x" (h = 6) {
// CHECK:             loops.load %{{.*}}[h - k + 1, o]
// CHECK:           loops.store %{{.*}}, %x[2*h + 2]
// CHECK:         loops.nest "x" (h = 6) {
// CHECK:             loops.load %{{.*}}[h, o]
// CHECK:           loops.store %{{.*}}, %x[2*h + 1]

// A maximum over windows has no products: it stays.
loops.func @kept {
  %g = assign.node "g" constant because "data" : memref<6x32xf32>
  %w = assign.node "w" constant because "data" : memref<3x32xf32>
  %x = assign.node "x" on_device because "gradient" : memref<8xf32>
  loops.nest "x" (h = 6, k = 3) {
    %sum = loops.reduce max (o = 32) : f32 {
      %0 = loops.load %g[h, o]
      %1 = loops.load %w[k, o]
      %2 = arith.mulf %0, %1 : f32
      loops.yield %2
    }
    %3 = loops.load %x[h + k]
    %4 = arith.addf %3, %sum : f32
    loops.store %4, %x[h + k]
  }
}
// CHECK-LABEL: loops.func @kept {
// CHECK:         loops.nest "x" (h = 6, k = 3) {
// CHECK:           loops.store %{{.*}}, %x[h + k]
