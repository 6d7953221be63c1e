// RUN: ocannl-opt %s --split-input-file -p schedule{cpu=x86-64-v3} | filecheck %s

// The sum of four neighbouring bytes is one of a word: vectors go along words, which are read once, not packed,
// and what sums such parts of a product is in blocks as products are.
loops.func @f {
  %w = assign.node "w" on_device because "parameter" : memref<512x384x32xi8>
  %x = assign.node "x" on_device because "data" : memref<384x32xi8>
  %s = assign.node "s" on_device because "data" : memref<512x384xf32>
  %y = assign.node "y" on_device because "computed by forward" : memref<512xf32>
  loops.nest "y" (o = 512) {
    %sum = loops.reduce add (k = 384, l = 8) : f32 {
      %words = loops.reduce add (i = 4) : i32 {
        %a = loops.load %w[o, k, 4*l + i]
        %aw = arith.extsi %a : i8 to i32
        %b = loops.load %x[k, 4*l + i]
        %bw = arith.extsi %b : i8 to i32
        %p = arith.muli %aw, %bw : i32
        loops.yield %p
      }
      %f = arith.sitofp %words : i32 to f32
      %c = loops.load %s[o, k]
      %r = arith.mulf %f, %c : f32
      loops.yield %r
    }
    loops.store %sum, %y[o]
  }
}
// CHECK-NOT: packed
// CHECK: loops.nest "y" (o = 512) schedule <order = (o), parallel = (o : {{[0-9]+}}), rows = o : 8, lanes = l : 8> {
// CHECK-NEXT: loops.reduce add (k = 384, l = 8) blocks 256 : f32 {

// -----

// From beyond the caches, as where they have 8 MiB, words are read row by row: in the order of memory.
loops.func @far {
  %w = assign.node "w" on_device because "parameter" : memref<512x512x32xi8>
  %x = assign.node "x" on_device because "data" : memref<512x32xi8>
  %s = assign.node "s" on_device because "data" : memref<512x512xf32>
  %y = assign.node "y" on_device because "computed by forward" : memref<512xf32>
  loops.nest "y" (o = 512) {
    %sum = loops.reduce add (k = 512, l = 8) : f32 {
      %words = loops.reduce add (i = 4) : i32 {
        %a = loops.load %w[o, k, 4*l + i]
        %aw = arith.extsi %a : i8 to i32
        %b = loops.load %x[k, 4*l + i]
        %bw = arith.extsi %b : i8 to i32
        %p = arith.muli %aw, %bw : i32
        loops.yield %p
      }
      %f = arith.sitofp %words : i32 to f32
      %c = loops.load %s[o, k]
      %r = arith.mulf %f, %c : f32
      loops.yield %r
    }
    loops.store %sum, %y[o]
  }
}
// CHECK-LABEL: @far
// CHECK: loops.nest "y" (o = 512) schedule <order = (o), parallel = (o : {{[0-9]+}}), lanes = l : 8> {

// -----

// In floats, vectors go along a loop of the sum around the innermost one.
loops.func @floats {
  %w = assign.node "w" on_device because "parameter" : memref<512x64x2x16xi8>
  %x = assign.node "x" on_device because "data" : memref<64x2x16xf32>
  %s = assign.node "s" on_device because "data" : memref<512x64xf32>
  %y = assign.node "y" on_device because "computed by forward" : memref<512xf32>
  loops.nest "y" (o = 512) {
    %sum = loops.reduce add (k = 64, l = 16) : f32 {
      %part = loops.reduce add (c = 2) : f32 {
        %a = loops.load %w[o, k, c, l]
        %af = arith.sitofp %a : i8 to f32
        %b = loops.load %x[k, c, l]
        %p = arith.mulf %af, %b : f32
        loops.yield %p
      }
      %t = loops.load %s[o, k]
      %r = arith.mulf %part, %t : f32
      loops.yield %r
    }
    loops.store %sum, %y[o]
  }
}
// CHECK-LABEL: @floats
// CHECK-NOT: packed
// CHECK: loops.nest "y" (o = 512) schedule <order = (o), parallel = (o : {{[0-9]+}}), rows = o : {{[0-9]+}}, lanes = l : {{8|16}}> {
