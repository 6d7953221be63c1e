// RUN: ocannl-opt %s -p infer-projections,lower-texpr-to-assign | filecheck %s

// Statistics are in f32, and so is what they are sums of. What several operations read is rounded.
// CHECK-LABEL: assign.routine @norm {
// CHECK:         %sum = assign.node "sum" local because "intermediate value" : memref<16xf32>
// CHECK-NEXT:    %mean = assign.node "mean" local because "intermediate value" : memref<16xf32>
// CHECK-NEXT:    %centred = assign.node "centred" local because "intermediate value" : memref<16x1024xf16>
// CHECK-NEXT:    %square = assign.node "square" local because "intermediate value" : memref<16x1024xf32>
// CHECK-NEXT:    %squares = assign.node "squares" local because "intermediate value" : memref<16xf32>
// CHECK-NEXT:    %variance = assign.node "variance" local because "intermediate value" : memref<16xf32>
// CHECK-NEXT:    %scale = assign.node "scale" local because "intermediate value" : memref<16xf32>
// CHECK-NEXT:    %normal = assign.node "normal" local because "intermediate value" : memref<16x1024xf32>
// CHECK-NEXT:    %y = assign.node "y" on_device because "computed by forward" : memref<16x1024xf16>
texpr.routine @norm {
  %x = texpr.data "x" : !texpr.tensor<16 | 1024, f16>
  %gain = texpr.param "gain" : !texpr.tensor<1024, f16>
  %n = texpr.constant 1024.0 : !texpr.tensor<f32>
  %sum = texpr.apply add= %x logic "b | o => b |" : !texpr.tensor<16 | f16>
  %mean = texpr.apply = div(%sum, %n) logic "." : !texpr.tensor<16 | f16>
  %centred = texpr.apply = sub(%x, %mean) logic "." : !texpr.tensor<16 | 1024, f16>
  %square = texpr.apply = mul(%centred, %centred) logic "." : !texpr.tensor<16 | 1024, f16>
  %squares = texpr.apply add= %square logic "b | o => b |" : !texpr.tensor<16 | f16>
  %variance = texpr.apply = div(%squares, %n) logic "." : !texpr.tensor<16 | f16>
  %scale = texpr.apply = recip_sqrt(%variance) logic "." : !texpr.tensor<16 | f16>
  %normal = texpr.apply = mul(%centred, %scale) logic "." : !texpr.tensor<16 | 1024, f16>
  %y = texpr.apply = mul(%gain, %normal) logic "." : !texpr.tensor<16 | 1024, f16>
  texpr.forward %y
}

// Products of matrices are rounded, and so are their operands: of a product with one row, too.
// CHECK-LABEL: assign.routine @products {
// CHECK:         %act = assign.node "act" local because "intermediate value" : memref<1x64xbf16>
// CHECK-NEXT:    %hidden = assign.node "hidden" local because "intermediate value" : memref<1x32xbf16>
// CHECK-NEXT:    %shifted = assign.node "shifted" local because "intermediate value" : memref<1x32xf32>
// CHECK-NEXT:    %y = assign.node "y" on_device because "computed by forward" : memref<1x32xbf16>
texpr.routine @products {
  %x = texpr.data "x" : !texpr.tensor<1 | 64, bf16>
  %w = texpr.param "w" : !texpr.tensor<64 -> 32, bf16>
  %b = texpr.param "b" : !texpr.tensor<32, bf16>
  %act = texpr.apply = relu(%x) logic "." : !texpr.tensor<1 | 64, bf16>
  %hidden = texpr.apply add= mul(%w, %act) logic "@" : !texpr.tensor<1 | 32, bf16>
  %shifted = texpr.apply = add(%hidden, %b) logic "." : !texpr.tensor<1 | 32, bf16>
  %y = texpr.apply = relu(%shifted) logic "." : !texpr.tensor<1 | 32, bf16>
  texpr.forward %y
}

// Rows that are looked up are no sums, and few terms are not enough where two operations read the sum.
// CHECK-LABEL: assign.routine @no_statistics {
// CHECK:         %row = assign.node "row" local because "intermediate value" : memref<16x4xf16>
// CHECK-NEXT:    %double = assign.node "double" local because "intermediate value" : memref<16x4xf32>
// CHECK-NEXT:    %y = assign.node "y" on_device because "computed by forward" : memref<16x4xf16>
// CHECK-NEXT:    %pair = assign.node "pair" local because "intermediate value" : memref<64xf16>
// CHECK-NEXT:    %root = assign.node "root" local because "intermediate value" : memref<64xf32>
// CHECK-NEXT:    %z = assign.node "z" on_device because "computed by forward" : memref<64xf16>
texpr.routine @no_statistics {
  %ids = texpr.data "ids" : !texpr.tensor<16 | i32>
  %table = texpr.param "table" : !texpr.tensor<65, 4, f16>
  %x = texpr.data "x" : !texpr.tensor<64, 2, f16>
  %at = texpr.range : !texpr.tensor<65, i32>
  %row = texpr.apply add= where(eq(%ids, %at), %table, 0.0) logic "b | ; v; v, d => b | d" : !texpr.tensor<16 | 4, f16>
  %double = texpr.apply = mul(2.0, %row) logic "." : !texpr.tensor<16 | 4, f16>
  %y = texpr.apply = mul(%row, %double) logic "." : !texpr.tensor<16 | 4, f16>
  %pair = texpr.apply add= %x logic "a, b => a" : !texpr.tensor<64, f16>
  %root = texpr.apply = sqrt(%pair) logic "." : !texpr.tensor<64, f16>
  %z = texpr.apply = mul(%pair, %root) logic "." : !texpr.tensor<64, f16>
  texpr.forward %y
  texpr.forward %z
}

// What is asked for and what is cast is rounded; what is assigned is rounded in memory.
// CHECK-LABEL: assign.routine @rounded {
// CHECK:         %sum = assign.node "sum" on_device because "computed by forward" : memref<f16>
// CHECK-NEXT:    %cast = assign.node "cast" local because "intermediate value" : memref<512xf16>
// CHECK-NEXT:    %y = assign.node "y" on_device because "computed by forward" : memref<512xf16>
// CHECK-NEXT:    %new = assign.node "new" local because "intermediate value" : memref<512xf32>
// CHECK:         assign.accum %x[o] = %new[o] over (o = 512)
texpr.routine @rounded {
  %x = texpr.param "x" : !texpr.tensor<512, f16>
  %wide = texpr.data "wide" : !texpr.tensor<512, f32>
  %sum = texpr.apply add= %x logic "a => " : !texpr.tensor<f16>
  %cast = texpr.apply = %wide logic "." : !texpr.tensor<512, f16>
  %y = texpr.apply = mul(%cast, %sum) logic "." : !texpr.tensor<512, f16>
  %new = texpr.apply = mul(0.5, %x) logic "." : !texpr.tensor<512, f16>
  texpr.forward %sum
  texpr.forward %y
  texpr.assign %x = %new logic "."
}

// Ranks exchange statistics in f32, other sums as they are.
// CHECK-LABEL: assign.routine @ranks
// CHECK:         %part = assign.node "part" local because "intermediate value" : memref<16xf32>
// CHECK:         %sum = assign.node "sum" local because "intermediate value" : memref<16xf32>
// CHECK:         %sum_rows = assign.node "sum_rows" local because "of a collective" : memref<2x16xf32>
// CHECK:         %kept_part = assign.node "kept_part" local because "intermediate value" : memref<16xf16>
// CHECK:         %kept = assign.node "kept" on_device because "computed by forward" : memref<16xf16>
// CHECK:         %kept_rows = assign.node "kept_rows" local because "of a collective" : memref<2x16xf16>
texpr.routine @ranks indices (data.rank = 2) mesh (data = 2) {
  %x = texpr.data "x" : !texpr.tensor<16 | 512, f16>
  %n = texpr.constant 1024.0 : !texpr.tensor<f32>
  %part = texpr.apply add= %x logic "b | o => b |" : !texpr.tensor<16 | f16>
  %sum = texpr.all_reduce %part add over "data" : !texpr.tensor<16 | f16>
  %mean = texpr.apply = div(%sum, %n) logic "." : !texpr.tensor<16 | f16>
  %kept_part = texpr.apply max= %x logic "b | o => b |" : !texpr.tensor<16 | f16>
  %kept = texpr.all_reduce %kept_part max over "data" : !texpr.tensor<16 | f16>
  texpr.forward %mean
  texpr.forward %kept
}
