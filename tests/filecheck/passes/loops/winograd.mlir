// RUN: ocannl-opt %s -p winograd | filecheck %s

// Rows of tiles fit on the stack: a group over them. The kernel stands in panels, and what follows the sum
// stands behind each of the four results.
loops.func @forward {
  %x = assign.node "x" on_device because "data" : memref<32x34x34x64xf32>
  %w = assign.node "w" on_device because "parameter" : memref<64x3x3x64xf32>
  %y = assign.node "y" on_device because "computed by forward" : memref<32x32x32x64xf32>
  loops.nest "y" (b = 32, h = 32, w = 32, o = 64) {
    %s = loops.reduce add (i = 3, j = 3, c = 64) : f32 {
      %d = loops.load %x[b, h + i, j + w, c]
      %g = loops.load %w[o, i, j, c]
      %p = arith.mulf %d, %g : f32
      loops.yield %p
    }
    %n = arith.negf %s : f32
    loops.store %n, %y[b, h, w, o]
  }
}

// CHECK-LABEL: loops.func @forward {
// CHECK:         %[[U:.*]] = assign.node "w.terms" local because "terms of tiles for y" : memref<16x2x64x32xf32>
// CHECK-NEXT:    loops.nest "w.terms" (o_panel = 2, c = 64, o = 32) {
// CHECK:         loops.group "y" (b = 32, h_block = 4) {
// CHECK-NEXT:      %[[V:.*]] = assign.node "x.terms" local {{.*}} : memref<16x4x16x64xf32>
// CHECK-NEXT:      %[[M:.*]] = assign.node "y.terms" local {{.*}} : memref<16x4x16x64xf32>
// CHECK-NEXT:      loops.nest "x.terms" (h = 4, w = 16, c = 64) {
// CHECK-NEXT:        loops.load %x[b, 2*h + 8*h_block, 2*w, c]
// CHECK:             loops.store %{{.*}}, %[[V]][15, h, w, c]
// CHECK:           loops.nest "y products" (term = 16, o_panel = 2, h = 4, w = 16, o = 32) {
// CHECK-NEXT:        %{{.*}} = loops.reduce add (c = 64) : f32 {
// CHECK-NEXT:          loops.load %[[V]][term, h, w, c]
// CHECK-NEXT:          loops.load %[[U]][term, o_panel, c, o]
// CHECK:             loops.store %{{.*}}, %[[M]][term, h, w, o + 32*o_panel]
// CHECK:           loops.nest "y" (h = 4, w = 16, o = 64) {
// CHECK:             %[[N:.*]] = arith.negf
// CHECK-NEXT:        loops.store %[[N]], %y[b, 2*h + 8*h_block, 2*w, o]
// CHECK:             loops.store %{{.*}}, %y[b, 2*h + 8*h_block + 1, 2*w + 1, o]

// The gradient of a kernel adds to sums of parts of the batch.
loops.func @kernel {
  %x = assign.node "x" on_device because "data" : memref<32x34x34x64xf32>
  %g = assign.node "g" on_device because "gradient" : memref<32x32x32x64xf32>
  %w = assign.node "w" on_device because "parameter" : memref<64x3x3x64xf32>
  loops.nest "w" (o = 64, i = 3, j = 3, c = 64) {
    %s = loops.reduce add (b = 32, h = 32, w = 32) : f32 {
      %a = loops.load %g[b, h, w, o]
      %d = loops.load %x[b, h + i, j + w, c]
      %p = arith.mulf %a, %d : f32
      loops.yield %p
    }
    loops.store %s, %w[o, i, j, c]
  }
}

// CHECK-LABEL: loops.func @kernel {
// CHECK:         %[[M:.*]] = assign.node "w.terms" local {{.*}} : memref<16x8x64x64xf32>
// CHECK-NEXT:    loops.nest "w.terms reset"
// CHECK:         loops.group "w" (b_part = 8, b = 4, h_block = 4) {
// CHECK:           loops.nest "w products" (term = 16, o = 64, c = 64) {
// CHECK-NEXT:        %[[S:.*]] = loops.reduce add (h = 4, w = 16) : f32 {
// CHECK:             %[[O:.*]] = loops.load %[[M]][term, b_part, o, c]
// CHECK-NEXT:        %[[A:.*]] = arith.addf %[[O]], %[[S]] : f32
// CHECK-NEXT:        loops.store %[[A]], %[[M]][term, b_part, o, c]
// CHECK:         loops.nest "w" (o = 64, c = 64) {
// CHECK-NEXT:      loops.load %[[M]][0, 0, o, c]
// CHECK-NEXT:      loops.load %[[M]][0, 1, o, c]
// CHECK:           loops.store %{{.*}}, %w[o, 2, 2, c]

// That of an image gathers what is read, from a copy with zeros around; all tiles are one block, as the kernel
// does not stay in a cache.
loops.func @image {
  %g = assign.node "g" on_device because "gradient" : memref<32x8x8x256xf32>
  %w = assign.node "w" on_device because "parameter" : memref<256x3x3x256xf32>
  %x = assign.node "x" local because "intermediate value" : memref<32x10x10x256xf32>
  %y = assign.node "y" on_device because "gradient" : memref<32x8x8x256xf32>
  loops.nest "x reset" (b = 32, h = 10, w = 10, c = 256) {
    %zero = arith.constant 0.0 : f32
    loops.store %zero, %x[b, h, w, c]
  }
  loops.nest "x" (b = 32, i = 3, h = 8, j = 3, w = 8, c = 256) {
    %s = loops.reduce add (o = 256) : f32 {
      %a = loops.load %g[b, h, w, o]
      %d = loops.load %w[o, i, j, c]
      %p = arith.mulf %a, %d : f32
      loops.yield %p
    }
    %old = loops.load %x[b, h + i, j + w, c]
    %new = arith.addf %old, %s : f32
    loops.store %new, %x[b, h + i, j + w, c]
  }
  loops.nest "y" (b = 32, h = 8, w = 8, c = 256) {
    %v = loops.load %x[b, h + 1, w + 1, c]
    loops.store %v, %y[b, h, w, c]
  }
}

// CHECK-LABEL: loops.func @image {
// CHECK-NOT:     loops.nest "x reset"
// CHECK:         loops.nest "g.padded.terms" (b = 32, h = 4, w = 4, o = 256) {
// CHECK-NEXT:      loops.load %{{.*}}[b, 2*h, 2*w, o]
// CHECK:         loops.nest "x products" (term = 16, c_panel = 8, b = 32, h = 4, w = 4, c = 32) {
// CHECK:         loops.nest "x" (b = 32, h = 4, w = 4, c = 256) {
// CHECK:           loops.store %{{.*}}, %x[b, 2*h + 1, 2*w + 1, c]
// CHECK:           loops.store %{{.*}}, %x[b, 2*h + 2, 2*w + 2, c]

// Nothing is done for an odd number of positions,
loops.func @odd {
  %x = assign.node "x" on_device because "data" : memref<32x35x34x64xf32>
  %w = assign.node "w" on_device because "parameter" : memref<64x3x3x64xf32>
  %y = assign.node "y" on_device because "computed by forward" : memref<32x33x32x64xf32>
  loops.nest "y" (b = 32, h = 33, w = 32, o = 64) {
    %s = loops.reduce add (i = 3, j = 3, c = 64) : f32 {
      %d = loops.load %x[b, h + i, j + w, c]
      %g = loops.load %w[o, i, j, c]
      %p = arith.mulf %d, %g : f32
      loops.yield %p
    }
    loops.store %s, %y[b, h, w, o]
  }
}

// CHECK-LABEL: loops.func @odd {
// CHECK:         loops.nest "y" (b = 32, h = 33, w = 32, o = 64) {

// for windows that move by steps of two,
loops.func @strided {
  %x = assign.node "x" on_device because "data" : memref<32x66x66x64xf32>
  %w = assign.node "w" on_device because "parameter" : memref<64x3x3x64xf32>
  %y = assign.node "y" on_device because "computed by forward" : memref<32x32x32x64xf32>
  loops.nest "y" (b = 32, h = 32, w = 32, o = 64) {
    %s = loops.reduce add (i = 3, j = 3, c = 64) : f32 {
      %d = loops.load %x[b, 2*h + i, j + 2*w, c]
      %g = loops.load %w[o, i, j, c]
      %p = arith.mulf %d, %g : f32
      loops.yield %p
    }
    loops.store %s, %y[b, h, w, o]
  }
}

// CHECK-LABEL: loops.func @strided {
// CHECK:         loops.nest "y" (b = 32, h = 32, w = 32, o = 64) {

// for few channels, whose transformations cost more than the multiplications that they save,
loops.func @few_channels {
  %x = assign.node "x" on_device because "data" : memref<32x34x34x3xf32>
  %w = assign.node "w" on_device because "parameter" : memref<64x3x3x3xf32>
  %y = assign.node "y" on_device because "computed by forward" : memref<32x32x32x64xf32>
  loops.nest "y" (b = 32, h = 32, w = 32, o = 64) {
    %s = loops.reduce add (i = 3, j = 3, c = 3) : f32 {
      %d = loops.load %x[b, h + i, j + w, c]
      %g = loops.load %w[o, i, j, c]
      %p = arith.mulf %d, %g : f32
      loops.yield %p
    }
    loops.store %s, %y[b, h, w, o]
  }
}

// CHECK-LABEL: loops.func @few_channels {
// CHECK:         loops.nest "y" (b = 32, h = 32, w = 32, o = 64) {

// or for f64.
loops.func @precise {
  %x = assign.node "x" on_device because "data" : memref<32x34x34x64xf64>
  %w = assign.node "w" on_device because "parameter" : memref<64x3x3x64xf64>
  %y = assign.node "y" on_device because "computed by forward" : memref<32x32x32x64xf64>
  loops.nest "y" (b = 32, h = 32, w = 32, o = 64) {
    %s = loops.reduce add (i = 3, j = 3, c = 64) : f64 {
      %d = loops.load %x[b, h + i, j + w, c]
      %g = loops.load %w[o, i, j, c]
      %p = arith.mulf %d, %g : f64
      loops.yield %p
    }
    loops.store %s, %y[b, h, w, o]
  }
}

// CHECK-LABEL: loops.func @precise {
// CHECK:         loops.nest "y" (b = 32, h = 32, w = 32, o = 64) {

// Two offsets from one position are no windows along two axes.
loops.func @one_position {
  %x = assign.node "x" on_device because "data" : memref<32x68x64xf32>
  %w = assign.node "w" on_device because "parameter" : memref<64x3x3x64xf32>
  %y = assign.node "y" on_device because "computed by forward" : memref<32x64x64xf32>
  loops.nest "y" (b = 32, h = 64, o = 64) {
    %s = loops.reduce add (i = 3, j = 3, c = 64) : f32 {
      %d = loops.load %x[b, h + i + j, c]
      %g = loops.load %w[o, i, j, c]
      %p = arith.mulf %d, %g : f32
      loops.yield %p
    }
    loops.store %s, %y[b, h, o]
  }
}

// CHECK-LABEL: loops.func @one_position {
// CHECK:         loops.nest "y" (b = 32, h = 64, o = 64) {
