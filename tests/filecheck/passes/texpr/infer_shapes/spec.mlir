// RUN: ocannl-opt %s -p infer-shapes | filecheck %s

// Names are the same in all slots.
// CHECK-LABEL: texpr.routine @names {
// CHECK-NEXT:    %x = texpr.data "x" : !texpr.tensor<2, 3>
// CHECK-NEXT:    %y = texpr.param "y" : !texpr.tensor<3>
// CHECK-NEXT:    %z = texpr.apply add= mul(%x, %y) logic "a b; b => a" : !texpr.tensor<2>
// CHECK-NEXT:    texpr.forward %z
// CHECK-NEXT:  }
texpr.routine @names {
  %x = texpr.data "x" : !texpr.tensor<2, 3>
  %y = texpr.param "y" : !texpr.tensor<...o0>
  %z = texpr.apply add= mul(%x, %y) logic "a b; b => a" : !texpr.tensor<...b1 | ...i2 -> ...o3>
  texpr.forward %z
}

// Long names and rows, each in its place.
// CHECK-LABEL: texpr.routine @places {
// CHECK-NEXT:    %x = texpr.data "x" : !texpr.tensor<10 | 2 -> 3, 4>
// CHECK-NEXT:    %z = texpr.apply add= %x logic "batch, | in, -> out, other => other, | out, -> in" : !texpr.tensor<4 | 3 -> 2>
// CHECK-NEXT:    texpr.forward %z
// CHECK-NEXT:  }
texpr.routine @places {
  %x = texpr.data "x" : !texpr.tensor<10 | 2 -> 3, 4>
  %z = texpr.apply add= %x logic "batch, | in, -> out, other => other, | out, -> in" : !texpr.tensor<...b1 | ...i2 -> ...o3>
  texpr.forward %z
}

// A row variable is any number of axes, the same in all slots.
// CHECK-LABEL: texpr.routine @rows {
// CHECK-NEXT:    %x = texpr.data "x" : !texpr.tensor<10, 11 | 2 -> 3, 4, 5>
// CHECK-NEXT:    %y = texpr.apply add= %x logic "... | i -> ..., o => ... | o -> ..." : !texpr.tensor<10, 11 | 5 -> 3, 4>
// CHECK-NEXT:    %z = texpr.apply add= %x logic "..v.. | ... -> a, ..w.., => ..w.. | ..v.." : !texpr.tensor<4, 5 | 10, 11>
// CHECK-NEXT:    texpr.forward %y
// CHECK-NEXT:    texpr.forward %z
// CHECK-NEXT:  }
texpr.routine @rows {
  %x = texpr.data "x" : !texpr.tensor<10, 11 | 2 -> 3, 4, 5>
  %y = texpr.apply add= %x logic "... | i -> ..., o => ... | o -> ..." : !texpr.tensor<...b1 | ...i2 -> ...o3>
  %z = texpr.apply add= %x logic "..v.. | ... -> a, ..w.., => ..w.. | ..v.." : !texpr.tensor<...b4 | ...i5 -> ...o6>
  texpr.forward %y
  texpr.forward %z
}

// Everything is reduced to a number.
// CHECK-LABEL: texpr.routine @total {
// CHECK-NEXT:    %x = texpr.data "x" : !texpr.tensor<10 | 2 -> 3>
// CHECK-NEXT:    %z = texpr.apply add= %x logic "... | ... -> ... => 0" : !texpr.tensor<1>
// CHECK-NEXT:    texpr.forward %z
// CHECK-NEXT:  }
texpr.routine @total {
  %x = texpr.data "x" : !texpr.tensor<10 | 2 -> 3>
  %z = texpr.apply add= %x logic "... | ... -> ... => 0" : !texpr.tensor<...b1 | ...i2 -> ...o3>
  texpr.forward %z
}

// A fixed position needs a size of one more at least; nothing is said of `_`.
// CHECK-LABEL: texpr.routine @fixed {
// CHECK-NEXT:    %x = texpr.node "x" : !texpr.tensor<2, 4>
// CHECK-NEXT:    %y = texpr.data "y" : !texpr.tensor<7, 8, 9>
// CHECK-NEXT:    %a = texpr.apply add= %x logic "a 3 => a 1" dims <a = 2> : !texpr.tensor<2, 2>
// CHECK-NEXT:    %b = texpr.apply add= %y logic "_ b 3 => b" : !texpr.tensor<8>
// CHECK-NEXT:    texpr.forward %a
// CHECK-NEXT:    texpr.forward %b
// CHECK-NEXT:  }
texpr.routine @fixed {
  %x = texpr.node "x" : !texpr.tensor<...b0 | ...i1 -> ...o2>
  %y = texpr.data "y" : !texpr.tensor<7, 8, 9>
  %a = texpr.apply add= %x logic "a 3 => a 1" dims <a = 2> : !texpr.tensor<...b4 | ...i5 -> ...o6>
  %b = texpr.apply add= %y logic "_ b 3 => b" : !texpr.tensor<...b7 | ...i8 -> ...o9>
  texpr.forward %a
  texpr.forward %b
}

// Dimensions are given a size, or captured for another place.
// CHECK-LABEL: texpr.routine @dims {
// CHECK-NEXT:    %q = texpr.param "q" : !texpr.tensor<8, 12>
// CHECK-NEXT:    %x = texpr.data "x" : !texpr.tensor<12>
// CHECK-NEXT:    %a = texpr.apply add= mul(%q, %x) logic "h d; d => h" dims <h = 8, d = 12> : !texpr.tensor<8>
// CHECK-NEXT:    %d = texpr.constant 12 : !texpr.tensor<8>
// CHECK-NEXT:    %s = texpr.apply = div(%a, %d) logic "." : !texpr.tensor<8>
// CHECK-NEXT:    texpr.forward %s
// CHECK-NEXT:  }
texpr.routine @dims {
  %q = texpr.param "q" : !texpr.tensor<...o0>
  %x = texpr.data "x" : !texpr.tensor<12>
  %a = texpr.apply add= mul(%q, %x) logic "h d; d => h" dims <h = 8, d = ?d7> : !texpr.tensor<...b1 | ...i2 -> ...o3>
  %d = texpr.size ?d7 : !texpr.tensor<...b4 | ...i5 -> ...o6>
  %s = texpr.apply = div(%a, %d) logic "." : !texpr.tensor<...b8 | ...i9 -> ...o10>
  texpr.forward %s
}

// A slot without axes is a number; in the result, names alone are broadcast.
// CHECK-LABEL: texpr.routine @constant {
// CHECK-NEXT:    %one = texpr.constant 1.0 : !texpr.tensor<>
// CHECK-NEXT:    %a = texpr.apply = %one logic "=> a b" dims <a = 2, b = 3> : !texpr.tensor<2, 3>
// CHECK-NEXT:  }
texpr.routine @constant {
  %one = texpr.constant 1.0 : !texpr.tensor<...b0 | ...i1 -> ...o2>
  %a = texpr.apply = %one logic "=> a b" dims <a = 2, b = 3> : !texpr.tensor<...b3 | ...i4 -> ...o5>
}

// Only in the result: broadcast.
// CHECK-LABEL: texpr.routine @repeat {
// CHECK-NEXT:    %x = texpr.data "x" : !texpr.tensor<4>
// CHECK-NEXT:    %a = texpr.apply add= %x logic "a => b a" dims <b = 2> : !texpr.tensor<2, 4>
// CHECK-NEXT:    texpr.forward %a
// CHECK-NEXT:  }
texpr.routine @repeat {
  %x = texpr.data "x" : !texpr.tensor<4>
  %a = texpr.apply add= %x logic "a => b a" dims <b = 2> : !texpr.tensor<...b3 | ...i4 -> ...o5>
  texpr.forward %a
}

// Assignments have specs too.
// CHECK-LABEL: texpr.routine @assigned {
// CHECK-NEXT:    %x = texpr.data "x" : !texpr.tensor<10 | 2 -> 3>
// CHECK-NEXT:    %n = texpr.node "n" : !texpr.tensor<3>
// CHECK-NEXT:    texpr.assign %n :max= %x logic "b | i -> o => o"
// CHECK-NEXT:  }
texpr.routine @assigned {
  %x = texpr.data "x" : !texpr.tensor<10 | 2 -> 3>
  %n = texpr.node "n" : !texpr.tensor<...b0 | ...i1 -> ...o2>
  texpr.assign %n :max= %x logic "b | i -> o => o"
}

// Without a window, what is left of an offset after whole strides is no part of the size.
// CHECK-LABEL: texpr.routine @strides {
// CHECK-NEXT:    %x = texpr.node "x" : !texpr.tensor<12>
// CHECK-NEXT:    %v = texpr.data "v" : !texpr.tensor<5>
// CHECK-NEXT:    %y = texpr.apply add= mul(%x, %v) logic "2*o + 3; o => o" dims <o = 5> : !texpr.tensor<5>
// CHECK-NEXT:    texpr.forward %y
// CHECK-NEXT:  }
texpr.routine @strides {
  %x = texpr.node "x" : !texpr.tensor<...o9>
  %v = texpr.data "v" : !texpr.tensor<5>
  %y = texpr.apply add= mul(%x, %v) logic "2*o + 3; o => o" : !texpr.tensor<...b1 | ...i2 -> ...o3>
  texpr.forward %y
}

// A padded window begins outside: an offset changes nothing.
// CHECK-LABEL: texpr.routine @padded {
// CHECK-NEXT:    %x = texpr.node "x" : !texpr.tensor<10>
// CHECK-NEXT:    %v = texpr.data "v" : !texpr.tensor<5>
// CHECK-NEXT:    %k = texpr.data "k" : !texpr.tensor<3>
// CHECK-NEXT:    %y = texpr.apply add= mul3(%x, %k, %v) logic "2*o =+ k + 3; k; o => o" dims <k = 3, o = 5> : !texpr.tensor<5>
// CHECK-NEXT:    texpr.forward %y
// CHECK-NEXT:  }
texpr.routine @padded {
  %x = texpr.node "x" : !texpr.tensor<...o9>
  %v = texpr.data "v" : !texpr.tensor<5>
  %k = texpr.data "k" : !texpr.tensor<3>
  %y = texpr.apply add= mul3(%x, %k, %v) logic "2*o =+ k + 3; k; o => o" : !texpr.tensor<...b1 | ...i2 -> ...o3>
  texpr.forward %y
}
