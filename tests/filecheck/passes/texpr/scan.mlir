// RUN: ocannl-opt %s -p infer-shapes,infer-precisions | filecheck %s --check-prefix=TYPES
// RUN: ocannl-opt %s -p infer-shapes,infer-precisions,infer-projections,mask-padding,differentiate,lower-texpr-to-assign | filecheck %s

// The carry is as large as what is yielded, of the precision of what it begins with; the counter is whole.
// TYPES:       %h, %c, %ys = texpr.scan t = 64 reverse carry (%hc = %zero : !texpr.tensor<32 | 16, f64>, %cc = %none : !texpr.tensor<i32>) each (%xt = %x at batch -1 : !texpr.tensor<32 | 3, f64>) with (%wc = %w, %uc = %u) {
// TYPES:         texpr.yield carry (%next, %count) each (%next at batch -1)
// TYPES-NEXT:  } : !texpr.tensor<32 | 16, f64>, !texpr.tensor<i32>, !texpr.tensor<32, 64 | 16, f64>

// CHECK:      assign.routine @step.h indices (t = 64, n) {
// CHECK-NEXT:   %hc = assign.node "hc" on_device because "carried from one iteration to the next" : memref<32x16xf64>
// CHECK-NEXT:   %cc = assign.node "cc" on_device because "carried from one iteration to the next" : memref<i32>
// CHECK-NEXT:   %xt = assign.node "xt" on_device because "a position each iteration" : memref<32x64x3xf64>
// CHECK-NEXT:   %wc = assign.node "wc" on_device because "captured by a scan" : memref<16x16xf64>
// CHECK-NEXT:   %uc = assign.node "uc" on_device because "captured by a scan" : memref<16x3xf64>
// CHECK-NEXT:   %ys = assign.node "ys" on_device because "stacked, one position each iteration" : memref<32x64x16xf64>
// The position is read in place, from the end; a counter of random numbers counts the iterations, too.
// CHECK:        %[[AT:.*]] = assign.embed 64*n + t : i64
// CHECK:        assign.accum %in[b, o] :add= mul(%uc[o, k], %xt[b, -t + 63, k]) over (b = 32, o = 16, k = 3)
// CHECK:        assign.uniform %noise "noise#1" at %[[AT]]
// What is stacked comes before the carries, which change last.
// CHECK:        assign.accum %ys[i, -t + 63, i1] = %next[i, i1] over (i = 32, i1 = 16)
// CHECK-NEXT:   assign.accum %hc[i, i1] := %next[i, i1] over (i = 32, i1 = 16)
// CHECK-NEXT:   assign.accum %cc[] := %count[] over ()
// CHECK-NEXT: }
// CHECK:      assign.routine @step indices (n) {
// CHECK:        assign.accum %h[b, o] := 0.0 over (b = 32, o = 16)
// CHECK-NEXT:   assign.accum %c[] := 0 over ()
// CHECK-NEXT:   assign.repeat @step.h t = 64 ("hc" = %h, "cc" = %c, "xt" = %x, "wc" = %w, "uc" = %u, "ys" = %ys)
texpr.routine @step indices (n) {
  %zero = texpr.constant 0.0 : !texpr.tensor<...b1 | ...i2 -> ...o3>
  %none = texpr.constant 0 : !texpr.tensor<...b4 | ...i5 -> ...o6>
  %x = texpr.data "x" : !texpr.tensor<32, 64 | 3, f64>
  %w = texpr.param "w" : !texpr.tensor<...i7 -> 16>
  %u = texpr.param "u" : !texpr.tensor<...i8 -> ...o9>
  %h, %c, %ys = texpr.scan t = ?d0 reverse carry (%hc = %zero : !texpr.tensor<...b10 | ...i11 -> ...o12>, %cc = %none : !texpr.tensor<...b13 | ...i14 -> ...o15>) each (%xt = %x at batch -1 : !texpr.tensor<...b16 | ...i17 -> ...o18>) with (%wc = %w, %uc = %u) {
    %own = texpr.apply add= mul(%wc, %hc) logic "@" : !texpr.tensor<...b19 | ...i20 -> ...o21>
    %in = texpr.apply add= mul(%uc, %xt) logic "@" : !texpr.tensor<...b22 | ...i23 -> ...o24>
    %step = texpr.embed n : !texpr.tensor<>
    %noise = texpr.uniform "noise#1" at %step like %in : !texpr.tensor<...b22 | ...i23 -> ...o24>
    %sum = texpr.apply = add(mul(%in, %noise), %own) logic "." : !texpr.tensor<...b25 | ...i26 -> ...o27>
    %next = texpr.apply = tanh(%sum) logic "." : !texpr.tensor<...b10 | ...i11 -> ...o12>
    %count = texpr.apply = add(%cc, 1) logic "." : !texpr.tensor<...b13 | ...i14 -> ...o15>
    texpr.yield carry (%next, %count) each (%next at batch -1)
  } : !texpr.tensor<...b10 | ...i11 -> ...o12>, !texpr.tensor<...b13 | ...i14 -> ...o15>, !texpr.tensor<...b28 | ...i29 -> ...o30>
  texpr.forward %ys
  texpr.forward %c
}
