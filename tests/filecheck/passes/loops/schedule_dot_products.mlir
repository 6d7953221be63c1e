// RUN: ocannl-opt %s --cpu sapphirerapids --split-input-file -p schedule | filecheck %s
// RUN: ocannl-opt %s --cpu sapphirerapids --split-input-file -p schedule | ocannl-opt --split-input-file | filecheck %s
// RUN: ocannl-opt %s --cpu x86-64-v2 --split-input-file -p schedule | filecheck %s --check-prefix=VECTORS

// VECTORS-NOT: dot =

// 100 rows are three blocks and a remainder of 4; the columns are copied with pairs along the sum beside each
// other, by words of 32 bits. What follows the sum reads it from a block.
// CHECK-LABEL: loops.func @product
// CHECK:         %[[COPY:.*]] = assign.node "w.packed" local because "contiguous copy for y" : memref<2x128x32x2xbf16>
// CHECK:         loops.nest "w.packed" (o_panel = 2, k_group = 128, o = 32, k = 2) schedule <order = (o_panel, k_group, o, k), {{.*}}rows = k_group : 16, lanes = o : 16>
// CHECK-NEXT:      loops.load %w[o + 32*o_panel, k + 2*k_group]
// CHECK-NEXT:      loops.store %{{.*}}, %[[COPY]][o_panel, k_group, o, k]
// CHECK:         loops.group "y" ()
// CHECK:           %[[BLOCK:.*]] = assign.node "y.block" local because "results of tdpbf16ps" : memref<2x96x32xf32>
// CHECK:           loops.nest "y products" (o_panel = 2, b = 96, o = 32) schedule <order = (o_panel, b, o), rows = b : 32, lanes = o : 32, dot = tdpbf16ps>
// CHECK-NEXT:        loops.reduce add (k_group = 128, k = 2) : f32
// CHECK-NEXT:          loops.load %x[b, k + 2*k_group]
// CHECK:               loops.load %[[COPY]][o_panel, k_group, o, k]
// CHECK:             loops.store %{{.*}}, %[[BLOCK]][o_panel, b, o]
// CHECK:           loops.nest "y" (o_panel = 2, b = 96, o = 32)
// CHECK:             loops.load %[[BLOCK]][o_panel, b, o]
// CHECK:             math.tanh
// CHECK:             loops.store %{{.*}}, %y[b, o + 32*o_panel]
// CHECK:         loops.group "y" ()
// CHECK:           loops.nest "y products" (o_panel = 2, b = 4, o = 32) {{.*}} rows = b : 4, lanes = o : 32, dot = tdpbf16ps>
// CHECK:             loops.load %x[b + 96, k + 2*k_group]
loops.func @product {
  %x = assign.node "x" on_device : memref<100x256xbf16>
  %w = assign.node "w" on_device : memref<64x256xbf16>
  %y = assign.node "y" on_device : memref<100x64xf32>
  loops.nest "y" (b = 100, o = 64) {
    %sum = loops.reduce add (k = 256) : f32 {
      %xv = loops.load %x[b, k]
      %xw = arith.extf %xv : bf16 to f32
      %wv = loops.load %w[o, k]
      %ww = arith.extf %wv : bf16 to f32
      %p = arith.mulf %xw, %ww : f32
      loops.yield %p
    }
    %h = math.tanh %sum : f32
    loops.store %h, %y[b, o]
  }
}

// -----

// Integers are added up in groups of four; three of 515 numbers are left to vector instructions. Rows that lie
// across memory are copied.
// CHECK-LABEL: loops.func @integers
// CHECK:         loops.nest "x.packed" (b = 64, k = 512)
// CHECK-NEXT:      loops.load %x[k, b]
// CHECK:           loops.nest "y products" {{.*}} dot = tdpbssd>
// CHECK-NEXT:        loops.reduce add (k_group = 128, k = 4) : i32
// CHECK:           loops.nest "y" (o_panel = 2, b = 64, o = 32)
// CHECK:             loops.reduce add (k = 3) : i32
// CHECK:               loops.load %x[k + 512, b]
loops.func @integers {
  %x = assign.node "x" on_device : memref<515x64xi8>
  %w = assign.node "w" on_device : memref<515x64xi8>
  %y = assign.node "y" on_device : memref<64x64xi32>
  loops.nest "y" (b = 64, o = 64) {
    %sum = loops.reduce add (k = 515) : i32 {
      %xv = loops.load %x[k, b]
      %xw = arith.extsi %xv : i8 to i32
      %wv = loops.load %w[k, o]
      %ww = arith.extsi %wv : i8 to i32
      %p = arith.muli %xw, %ww : i32
      loops.yield %p
    }
    loops.store %sum, %y[b, o]
  }
}

// -----

// The copy of a large matrix in panels reads whole lines of its rows: it writes eight panels at a time.
// CHECK-LABEL: loops.func @few_rows
// CHECK:         loops.nest "w.packed" (o_panel = 64, k_group = 512, o = 32, k = 2)
// CHECK-SAME:      order = (k_group, k, o_panel, o){{.*}} rows = k : 2, lanes = o : 32, strips = o_panel : 8>
loops.func @few_rows {
  %x = assign.node "x" on_device : memref<32x1024xbf16>
  %w = assign.node "w" on_device : memref<1024x2048xbf16>
  %y = assign.node "y" on_device : memref<32x2048xf32>
  loops.nest "y" (b = 32, o = 2048) {
    %sum = loops.reduce add (k = 1024) : f32 {
      %xv = loops.load %x[b, k]
      %xw = arith.extf %xv : bf16 to f32
      %wv = loops.load %w[k, o]
      %ww = arith.extf %wv : bf16 to f32
      %p = arith.mulf %xw, %ww : f32
      loops.yield %p
    }
    loops.store %sum, %y[b, o]
  }
}
