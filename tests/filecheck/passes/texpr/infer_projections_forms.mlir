// RUN: ocannl-opt %s --split-input-file -p infer-shapes,infer-projections | filecheck %s

// A product is indexed row-major; a bijection needs no accumulation.
// CHECK-LABEL: texpr.routine @products
// CHECK:         %flat = texpr.apply [3*h + w] = %x[h, w] over (h = 2, w = 3) : !texpr.tensor<6, f32>
// CHECK-NEXT:    %split = texpr.apply [h, w] = %flat[2*h + w] over (h = 3, w = 2) : !texpr.tensor<3, 2, f32>
// CHECK-NEXT:    %rows = texpr.apply [c + 12*r + 4*r1] = %y[r, r1, c]
texpr.routine @products {
  %x = texpr.data "x" : !texpr.tensor<2, 3, f32>
  %y = texpr.data "y" : !texpr.tensor<2, 3 | 4, f32>
  %flat = texpr.apply add= %x logic "h w => h&w" : !texpr.tensor<...o0, f32>
  %split = texpr.apply add= %flat logic "h&w => h w" dims <w = 2> : !texpr.tensor<...o1, f32>
  %rows = texpr.apply add= %y logic "..r.. | c => ..r..&c" : !texpr.tensor<...o2, f32>
  texpr.forward %split
  texpr.forward %rows
}

// -----

// Parts run in turn, and reset only where cells are left over; a part without a place in the result is skipped.
// CHECK-LABEL: texpr.routine @parts
// CHECK:         %joined = texpr.apply [a] = %x[a] over (a = 3) then [b + 3] = %y[b] over (b = 5) : !texpr.tensor<8, f32>
// CHECK-NEXT:    %middle = texpr.apply [a] = %y[a + 2] over (a = 2) : !texpr.tensor<2, f32>
// CHECK-NEXT:    %after = texpr.apply [a] max= %x[a] over (a = 3) : !texpr.tensor<5, f32>
// CHECK-NEXT:    %folded = texpr.apply [0] add= %y[a] over (a = 2) then [0] add= %y[b + 2] over (b = 3)
texpr.routine @parts {
  %x = texpr.data "x" : !texpr.tensor<3, f32>
  %y = texpr.data "y" : !texpr.tensor<5, f32>
  %joined = texpr.apply add= add(%x, %y) logic "a; b => a^b" : !texpr.tensor<...o0, f32>
  %middle = texpr.apply add= %y logic "2^a^1 => a" : !texpr.tensor<...o1, f32>
  %after = texpr.apply max= %x logic "a => a^2" : !texpr.tensor<...o2, f32>
  %folded = texpr.apply add= %y logic "a^b => 0" dims <a = 2> : !texpr.tensor<...o3, f32>
  texpr.forward %joined
  texpr.forward %middle
  texpr.forward %after
  texpr.forward %folded
}

// -----

// What a window reads beyond the ends comes from a copy with margins: zero in a product, else the neutral element.
// CHECK-LABEL: texpr.routine @windows
// CHECK:         %valid = texpr.apply [o] add= mul(%y[k + 2*o], %k[k]) over (o = 3, k = 3) : !texpr.tensor<3, f32>
// CHECK-NEXT:    %x_padded = texpr.apply [i + 2] = %x[i] over (i = 8) : !texpr.tensor<12, f32>
// CHECK-NEXT:    %same = texpr.apply [o] add= mul(%x_padded[2*k + o], %k[k]) over (o = 8, k = 3) : !texpr.tensor<8, f32>
// CHECK-NEXT:    %x_padded_1 = texpr.apply [i + 1] max= %x[i] over (i = 8) : !texpr.tensor<10, f32>
// CHECK-NEXT:    %highest = texpr.apply [o] max= %x_padded_1[k + o] over (o = 8, k = 3) : !texpr.tensor<8, f32>
// CHECK-NEXT:    %spread = texpr.apply [k + 2*o] add= mul(%x[o], %k[k]) over (o = 8, k = 3) : !texpr.tensor<17, f32>
texpr.routine @windows {
  %x = texpr.data "x" : !texpr.tensor<8, f32>
  %k = texpr.param "k" : !texpr.tensor<3, f32>
  %y = texpr.data "y" : !texpr.tensor<7, f32>
  %valid = texpr.apply add= mul(%y, %k) logic "2*o <+ k; k => o" : !texpr.tensor<...o0, f32>
  %same = texpr.apply add= mul(%x, %k) logic "o =+ 2*k; k => o" : !texpr.tensor<...o1, f32>
  %highest = texpr.apply max= %x logic "o =+ k => o" dims <k = 3> : !texpr.tensor<...o2, f32>
  %spread = texpr.apply add= mul(%x, %k) logic "o; k => 2*o + k" : !texpr.tensor<...o3, f32>
  texpr.forward %valid
  texpr.forward %same
  texpr.forward %highest
  texpr.forward %spread
}

// -----

// What is written beyond the ends of memory is accumulated apart from it, and cut off.
// CHECK-LABEL: texpr.routine @written_beyond_the_ends
// CHECK:         %0 = texpr.apply [2*d + f] = %x[f, d] over (f = 2, d = 2) : !texpr.tensor<4, f32>
// CHECK-NEXT:    %1 = texpr.apply [i] = %0[i + 1] over (i = 2) : !texpr.tensor<2, f32>
// CHECK-NEXT:    texpr.assign %t[o] max= %1[o] over (o = 2)
texpr.routine @written_beyond_the_ends {
  %x = texpr.data "x" : !texpr.tensor<2, 2, f32>
  %t = texpr.node "t" : !texpr.tensor<2, f32>
  texpr.assign %t max= %x logic "f d => f =+ 2*d" dims <d = 2, f = 2>
}
