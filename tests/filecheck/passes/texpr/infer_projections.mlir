// RUN: ocannl-opt %s -p infer-projections | filecheck %s

// Axes of size 1 are indexed at 0, also where they are broadcast; operands align from the right.
// CHECK-LABEL: texpr.routine @pointwise {
// CHECK-NEXT:    %x = texpr.data "x" : !texpr.tensor<5, 1, 3, f32>
// CHECK-NEXT:    %y = texpr.data "y" : !texpr.tensor<10 | 4, 1, f32>
// CHECK-NEXT:    %z = texpr.apply [b, o, o1, o2] = add(%x[o, 0, o2], %y[b, o1, 0]) over (b = 10, o = 5, o1 = 4, o2 = 3) : !texpr.tensor<10 | 5, 4, 3, f32>
// CHECK-NEXT:    %one = texpr.apply [0, o, 0, o1] = neg(%x[o, 0, o1]) over (o = 5, o1 = 3) : !texpr.tensor<1 | 5, 1, 3, f32>
// CHECK-NEXT:  }
texpr.routine @pointwise {
  %x = texpr.data "x" : !texpr.tensor<5, 1, 3, f32>
  %y = texpr.data "y" : !texpr.tensor<10 | 4, 1, f32>
  %z = texpr.apply = add(%x, %y) logic "." : !texpr.tensor<10 | 5, 4, 3, f32>
  %one = texpr.apply = neg(%x) logic "." : !texpr.tensor<1 | 5, 1, 3, f32>
}

// A split row broadcasts at the split.
// CHECK-LABEL: texpr.routine @split {
// CHECK-NEXT:    %x = texpr.data "x" : !texpr.tensor<5, ..., 3, f32>
// CHECK-NEXT:    %z = texpr.apply [o, o1, o2] = neg(%x[o, o2]) over (o = 5, o1 = 4, o2 = 3) : !texpr.tensor<5, 4, 3, f32>
// CHECK-NEXT:  }
texpr.routine @split {
  %x = texpr.data "x" : !texpr.tensor<5, ..., 3, f32>
  %z = texpr.apply = neg(%x) logic "." : !texpr.tensor<5, 4, 3, f32>
}

// Memory order is batch, output, input.
// CHECK-LABEL: texpr.routine @three_rows {
// CHECK-NEXT:    %x = texpr.data "x" : !texpr.tensor<10 | 2 -> 3, f32>
// CHECK-NEXT:    %y = texpr.apply [b, o, i] = neg(%x[b, o, i]) over (b = 10, o = 3, i = 2) : !texpr.tensor<10 | 2 -> 3, f32>
// CHECK-NEXT:    %t = texpr.apply [b, o, i] = %x[b, i, o] over (b = 10, o = 2, i = 3) : !texpr.tensor<10 | 3 -> 2, f32>
// CHECK-NEXT:  }
texpr.routine @three_rows {
  %x = texpr.data "x" : !texpr.tensor<10 | 2 -> 3, f32>
  %y = texpr.apply = neg(%x) logic "." : !texpr.tensor<10 | 2 -> 3, f32>
  %t = texpr.apply = %x logic "T" : !texpr.tensor<10 | 3 -> 2, f32>
}

// The product sums over the input axes of its left side.
// CHECK-LABEL: texpr.routine @compose {
// CHECK-NEXT:    %w = texpr.param "w" : !texpr.tensor<2, 7 -> 16, f32>
// CHECK-NEXT:    %x = texpr.data "x" : !texpr.tensor<10 | 2, 7, f32>
// CHECK-NEXT:    %h = texpr.apply [b, o] add= mul(%w[o, k, k1], %x[b, k, k1]) over (b = 10, o = 16, k = 2, k1 = 7) : !texpr.tensor<10 | 16, f32>
// CHECK-NEXT:    %f = texpr.data "f" : !texpr.tensor<3 -> 7, f32>
// CHECK-NEXT:    %g = texpr.apply [o, i] add= mul(%w[o, k, k1], %f[k1, i]) over (o = 16, i = 3, k = 2, k1 = 7) : !texpr.tensor<3 -> 16, f32>
// CHECK-NEXT:  }
texpr.routine @compose {
  %w = texpr.param "w" : !texpr.tensor<2, 7 -> 16, f32>
  %x = texpr.data "x" : !texpr.tensor<10 | 2, 7, f32>
  %h = texpr.apply add= mul(%w, %x) logic "@" : !texpr.tensor<10 | 16, f32>
  %f = texpr.data "f" : !texpr.tensor<3 -> 7, f32>
  %g = texpr.apply add= mul(%w, %f) logic "@" : !texpr.tensor<3 -> 16, f32>
}

// Two axes of one size are iterated together only where the spec says so.
// CHECK-LABEL: texpr.routine @equal_sizes {
// CHECK-NEXT:    %x = texpr.data "x" : !texpr.tensor<4, 4, f32>
// CHECK-NEXT:    %square = texpr.apply [a, b, c, d] = mul(%x[a, b], %x[c, d]) over (a = 4, b = 4, c = 4, d = 4) : !texpr.tensor<4, 4, 4, 4, f32>
// CHECK-NEXT:    %matmul = texpr.apply [a, c] add= mul(%x[a, b], %x[b, c]) over (a = 4, c = 4, b = 4) : !texpr.tensor<4, 4, f32>
// CHECK-NEXT:    %copy = texpr.apply [o, o1] = neg(%x[o, o1]) over (o = 4, o1 = 4) : !texpr.tensor<4, 4, f32>
// CHECK-NEXT:  }
texpr.routine @equal_sizes {
  %x = texpr.data "x" : !texpr.tensor<4, 4, f32>
  %square = texpr.apply add= mul(%x, %x) logic "a b; c d => a b c d" : !texpr.tensor<4, 4, 4, 4, f32>
  %matmul = texpr.apply add= mul(%x, %x) logic "a b; b c => a c" : !texpr.tensor<4, 4, f32>
  %copy = texpr.apply = neg(%x) logic "." : !texpr.tensor<4, 4, f32>
}

// A diagonal, and a tensor that has nothing else.
// CHECK-LABEL: texpr.routine @diagonals {
// CHECK-NEXT:    %x = texpr.data "x" : !texpr.tensor<4, 4, f32>
// CHECK-NEXT:    %d = texpr.apply [a] = %x[a, a] over (a = 4) : !texpr.tensor<4, f32>
// CHECK-NEXT:    %e = texpr.apply [a, a] add= %d[a] over (a = 4) : !texpr.tensor<4, 4, f32>
// CHECK-NEXT:  }
texpr.routine @diagonals {
  %x = texpr.data "x" : !texpr.tensor<4, 4, f32>
  %d = texpr.apply add= %x logic "a a => a" : !texpr.tensor<4, f32>
  %e = texpr.apply add= %d logic "a => a a" : !texpr.tensor<4, 4, f32>
}

// Row variables in any row and in the middle.
// CHECK-LABEL: texpr.routine @rows {
// CHECK-NEXT:    %x = texpr.data "x" : !texpr.tensor<10, 11 | 2 -> 3, 4, 5, f32>
// CHECK-NEXT:    %y = texpr.apply [b, b1, o1, o2, o] add= %x[b, b1, o1, o2, o, i] over (b = 10, b1 = 11, o = 5, o1 = 3, o2 = 4, i = 2) : !texpr.tensor<10, 11 | 5 -> 3, 4, f32>
// CHECK-NEXT:    %z = texpr.apply [b, b1, o, o1] add= %x[o, o1, a, b, b1, i] over (b = 4, b1 = 5, o = 10, o1 = 11, i = 2, a = 3) : !texpr.tensor<4, 5 | 10, 11, f32>
// CHECK-NEXT:    %s = texpr.apply [0] max= %x[b, b1, o, o1, o2, i] over (b = 10, b1 = 11, i = 2, o = 3, o1 = 4, o2 = 5) : !texpr.tensor<1, f32>
// CHECK-NEXT:  }
texpr.routine @rows {
  %x = texpr.data "x" : !texpr.tensor<10, 11 | 2 -> 3, 4, 5, f32>
  %y = texpr.apply add= %x logic "... | i -> ..., o => ... | o -> ..." : !texpr.tensor<10, 11 | 5 -> 3, 4, f32>
  %z = texpr.apply add= %x logic "..v.. | ... -> a, ..w.., => ..w.. | ..v.." : !texpr.tensor<4, 5 | 10, 11, f32>
  %s = texpr.apply max= %x logic "... | ... -> ... => 0" : !texpr.tensor<1, f32>
}

// Fixed positions select, and write where they say; nothing is said of `_`.
// CHECK-LABEL: texpr.routine @fixed {
// CHECK-NEXT:    %x = texpr.data "x" : !texpr.tensor<4, 5, f32>
// CHECK-NEXT:    %a = texpr.apply [a] = %x[a, 3] over (a = 4) : !texpr.tensor<4, f32>
// CHECK-NEXT:    %b = texpr.apply [a, 1] add= %a[a] over (a = 4) : !texpr.tensor<4, 2, f32>
// CHECK-NEXT:    %c = texpr.apply [b] add= %x[u, b] over (b = 5, u = 4) : !texpr.tensor<5, f32>
// CHECK-NEXT:  }
texpr.routine @fixed {
  %x = texpr.data "x" : !texpr.tensor<4, 5, f32>
  %a = texpr.apply add= %x logic "a 3 => a" : !texpr.tensor<4, f32>
  %b = texpr.apply add= %a logic "a => a 1" : !texpr.tensor<4, 2, f32>
  %c = texpr.apply add= %x logic "_ b => b" : !texpr.tensor<5, f32>
}

// The accumulation goes where each cell is written once, and all are.
// CHECK-LABEL: texpr.routine @accumulation {
// CHECK-NEXT:    %x = texpr.data "x" : !texpr.tensor<4, 5, f32>
// CHECK-NEXT:    %permuted = texpr.apply [b, a] = %x[a, b] over (b = 5, a = 4) : !texpr.tensor<5, 4, f32>
// CHECK-NEXT:    %product = texpr.apply [b, a] = mul(@a0, @a1) of (%x[a, b], %x[a, b]) over (b = 5, a = 4) : !texpr.tensor<5, 4, f32>
// CHECK-NEXT:    %reduced = texpr.apply [a] max= %x[a, b] over (a = 4, b = 5) : !texpr.tensor<4, f32>
// CHECK-NEXT:    %repeated = texpr.apply [c, a, b] = %x[a, b] over (c = 2, a = 4, b = 5) : !texpr.tensor<2, 4, 5, f32>
// CHECK-NEXT:    %partly = texpr.apply [a, b, 0] add= %x[a, b] over (a = 4, b = 5) : !texpr.tensor<4, 5, 2, f32>
// CHECK-NEXT:  }
texpr.routine @accumulation {
  %x = texpr.data "x" : !texpr.tensor<4, 5, f32>
  %permuted = texpr.apply add= %x logic "a b => b a" : !texpr.tensor<5, 4, f32>
  %product = texpr.apply max= mul(%x, %x) logic "a b; a b => b a" : !texpr.tensor<5, 4, f32>
  %reduced = texpr.apply max= %x logic "a b => a" : !texpr.tensor<4, f32>
  %repeated = texpr.apply add= %x logic "a b => c a b" dims <c = 2> : !texpr.tensor<2, 4, 5, f32>
  %partly = texpr.apply add= %x logic "a b => a b 0" : !texpr.tensor<4, 5, 2, f32>
}

// Slices index at the static index, which no variable may be called.
// CHECK-LABEL: texpr.routine @slice indices (o = 80) {
// CHECK-NEXT:    %x = texpr.data "x" : !texpr.tensor<80, 10 | 2, f32>
// CHECK-NEXT:    %s = texpr.apply [b, o1] = %x[o, b, o1] over (b = 10, o1 = 2) : !texpr.tensor<10 | 2, f32>
// CHECK-NEXT:    %t = texpr.apply [b, o1] = %x[5, b, o1] over (b = 10, o1 = 2) : !texpr.tensor<10 | 2, f32>
// CHECK-NEXT:    %n = texpr.apply [b, o1] = neg(%s[b, o1]) over (b = 10, o1 = 2) : !texpr.tensor<10 | 2, f32>
// CHECK-NEXT:  }
texpr.routine @slice indices (o = 80) {
  %x = texpr.data "x" : !texpr.tensor<80, 10 | 2, f32>
  %s = texpr.slice %x at o : !texpr.tensor<10 | 2, f32>
  %t = texpr.slice %x at 5 : !texpr.tensor<10 | 2, f32>
  %n = texpr.apply = neg(%s) logic "." : !texpr.tensor<10 | 2, f32>
}

// CHECK-LABEL: texpr.routine @assignments {
// CHECK-NEXT:    %x = texpr.data "x" : !texpr.tensor<10 | 1 -> 3, f32>
// CHECK-NEXT:    %n = texpr.node "n" : !texpr.tensor<10 | 4 -> 3, f32>
// CHECK-NEXT:    %t = texpr.node "t" : !texpr.tensor<10 | 3 -> 4, f32>
// CHECK-NEXT:    %s = texpr.node "s" : !texpr.tensor<3, f32>
// CHECK-NEXT:    texpr.assign %n[b, o, i] = %x[b, o, 0] over (b = 10, o = 3, i = 4)
// CHECK-NEXT:    texpr.assign %t[b, o, i] add= %x[b, i, 0] over (b = 10, o = 4, i = 3)
// CHECK-NEXT:    texpr.assign %s[o] :max= %x[b, o, 0] over (o = 3, b = 10)
// CHECK-NEXT:  }
texpr.routine @assignments {
  %x = texpr.data "x" : !texpr.tensor<10 | 1 -> 3, f32>
  %n = texpr.node "n" : !texpr.tensor<10 | 4 -> 3, f32>
  %t = texpr.node "t" : !texpr.tensor<10 | 3 -> 4, f32>
  %s = texpr.node "s" : !texpr.tensor<3, f32>
  texpr.assign %n = %x logic "."
  texpr.assign %t add= %x logic "T"
  texpr.assign %s :max= %x logic "b | i -> o => o"
}

// What is projected stays, and `stop` is kept.
// CHECK-LABEL: texpr.routine @kept {
// CHECK-NEXT:    %x = texpr.data "x" : !texpr.tensor<4, f32>
// CHECK-NEXT:    %y = texpr.apply [i] = %x[-i + 3] over (i = 4) : !texpr.tensor<4, f32>
// CHECK-NEXT:    %z = texpr.apply [o] = %y[o] over (o = 4) stop : !texpr.tensor<4, f32>
// CHECK-NEXT:  }
texpr.routine @kept {
  %x = texpr.data "x" : !texpr.tensor<4, f32>
  %y = texpr.apply [i] = %x[-i + 3] over (i = 4) : !texpr.tensor<4, f32>
  %z = texpr.apply = %y logic "." stop : !texpr.tensor<4, f32>
}

// Empty axes make empty spaces.
// CHECK-LABEL: texpr.routine @empty {
// CHECK-NEXT:    %x = texpr.data "x" : !texpr.tensor<4, 0, f32>
// CHECK-NEXT:    %y = texpr.apply [a] add= %x[a, b] over (a = 4, b = 0) : !texpr.tensor<4, f32>
// CHECK-NEXT:    %z = texpr.apply [o, o1] = neg(%x[o, o1]) over (o = 4, o1 = 0) : !texpr.tensor<4, 0, f32>
// CHECK-NEXT:  }
texpr.routine @empty {
  %x = texpr.data "x" : !texpr.tensor<4, 0, f32>
  %y = texpr.apply add= %x logic "a b => a" : !texpr.tensor<4, f32>
  %z = texpr.apply = neg(%x) logic "." : !texpr.tensor<4, 0, f32>
}
