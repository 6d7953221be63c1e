// RUN: ocannl-opt %s -p infer-shapes | filecheck %s

// A leaf takes the largest shape that needs no broadcasting.
// CHECK-LABEL: texpr.routine @greatest {
// CHECK-NEXT:    %x = texpr.data "x" : !texpr.tensor<10 | 4, 3>
// CHECK-NEXT:    %p = texpr.param "p" : !texpr.tensor<4, 3>
// CHECK-NEXT:    %y = texpr.apply = mul(%p, %x) logic "." : !texpr.tensor<10 | 4, 3>
// CHECK-NEXT:    texpr.forward %y
// CHECK-NEXT:  }
texpr.routine @greatest {
  %x = texpr.data "x" : !texpr.tensor<10 | 4, 3>
  %p = texpr.param "p" : !texpr.tensor<...o0>
  %y = texpr.apply = mul(%p, %x) logic "." : !texpr.tensor<...b1 | ...i2 -> ...o3>
  texpr.forward %y
}

// Where two uses disagree on a size it is 1; on the number of axes, the lesser.
// CHECK-LABEL: texpr.routine @disagreement {
// CHECK-NEXT:    %x = texpr.data "x" : !texpr.tensor<4, 3>
// CHECK-NEXT:    %y = texpr.data "y" : !texpr.tensor<5, 3>
// CHECK-NEXT:    %z = texpr.data "z" : !texpr.tensor<3>
// CHECK-NEXT:    %p = texpr.param "p" : !texpr.tensor<1, 3>
// CHECK-NEXT:    %q = texpr.param "q" : !texpr.tensor<3>
// CHECK-NEXT:    %a = texpr.apply = mul(%p, %x) logic "." : !texpr.tensor<4, 3>
// CHECK-NEXT:    %b = texpr.apply = mul(%p, %y) logic "." : !texpr.tensor<5, 3>
// CHECK-NEXT:    %c = texpr.apply = mul(%q, %y) logic "." : !texpr.tensor<5, 3>
// CHECK-NEXT:    %d = texpr.apply = mul(%q, %z) logic "." : !texpr.tensor<3>
// CHECK-NEXT:  }
texpr.routine @disagreement {
  %x = texpr.data "x" : !texpr.tensor<4, 3>
  %y = texpr.data "y" : !texpr.tensor<5, 3>
  %z = texpr.data "z" : !texpr.tensor<3>
  %p = texpr.param "p" : !texpr.tensor<...o0>
  %q = texpr.param "q" : !texpr.tensor<...o1>
  %a = texpr.apply = mul(%p, %x) logic "." : !texpr.tensor<...b2 | ...i3 -> ...o4>
  %b = texpr.apply = mul(%p, %y) logic "." : !texpr.tensor<...b5 | ...i6 -> ...o7>
  %c = texpr.apply = mul(%q, %y) logic "." : !texpr.tensor<...b8 | ...i9 -> ...o10>
  %d = texpr.apply = mul(%q, %z) logic "." : !texpr.tensor<...b11 | ...i12 -> ...o13>
}

// The last layer's output follows from the target that it is compared with.
// CHECK-LABEL: texpr.routine @through_results {
// CHECK-NEXT:    %x = texpr.data "x" : !texpr.tensor<10 | 2>
// CHECK-NEXT:    %t = texpr.data "t" : !texpr.tensor<10 | 3>
// CHECK-NEXT:    %w = texpr.param "w" : !texpr.tensor<2 -> 3>
// CHECK-NEXT:    %b = texpr.param "b" : !texpr.tensor<3>
// CHECK-NEXT:    %y = texpr.apply add= mul(%w, %x) logic "@" : !texpr.tensor<10 | 3>
// CHECK-NEXT:    %s = texpr.apply = add(%y, %b) logic "." : !texpr.tensor<10 | 3>
// CHECK-NEXT:    %e = texpr.apply = sub(%s, %t) logic "." : !texpr.tensor<10 | 3>
// CHECK-NEXT:  }
texpr.routine @through_results {
  %x = texpr.data "x" : !texpr.tensor<10 | 2>
  %t = texpr.data "t" : !texpr.tensor<10 | 3>
  %w = texpr.param "w" : !texpr.tensor<...i0 -> ...o1>
  %b = texpr.param "b" : !texpr.tensor<...o2>
  %y = texpr.apply add= mul(%w, %x) logic "@" : !texpr.tensor<...b3 | ...i4 -> ...o5>
  %s = texpr.apply = add(%y, %b) logic "." : !texpr.tensor<...b6 | ...i7 -> ...o8>
  %e = texpr.apply = sub(%s, %t) logic "." : !texpr.tensor<...b9 | ...i10 -> ...o11>
}

// What nothing uses has no axes, and dimensions left open are 1.
// CHECK-LABEL: texpr.routine @open {
// CHECK-NEXT:    %n = texpr.node "n" : !texpr.tensor<>
// CHECK-NEXT:    %m = texpr.node "m" : !texpr.tensor<1 | 1 -> 1, 3>
// CHECK-NEXT:    %e = texpr.embed 5 : !texpr.tensor<>
// CHECK-NEXT:  }
texpr.routine @open {
  %n = texpr.node "n" : !texpr.tensor<...b0 | ...i1 -> ...o2>
  %m = texpr.node "m" : !texpr.tensor<?d0 | ?d1 -> ?d0, 3>
  %e = texpr.embed 5 : !texpr.tensor<...b3 | ...i4 -> ...o5>
}

// Dimension variables are the same size wherever they are written.
// CHECK-LABEL: texpr.routine @shared {
// CHECK-NEXT:    %n = texpr.node "n" : !texpr.tensor<7 -> 7, 3>
// CHECK-NEXT:    %m = texpr.data "m" : !texpr.tensor<7, 3>
// CHECK-NEXT:    %s = texpr.apply add= %n logic "a -> b c => b c" : !texpr.tensor<7, 3>
// CHECK-NEXT:  }
texpr.routine @shared {
  %n = texpr.node "n" : !texpr.tensor<?d0 -> ?d0, 3>
  %m = texpr.data "m" : !texpr.tensor<7, 3>
  %s = texpr.apply add= %n logic "a -> b c => b c" : !texpr.tensor<7, ?d1>
}

// Memory of a tensor has its shape.
// CHECK-LABEL: texpr.routine @owned {
// CHECK-NEXT:    %x = texpr.data "x" : !texpr.tensor<10 | 2>
// CHECK-NEXT:    %y = texpr.apply = neg(%x) logic "." : !texpr.tensor<10 | 2>
// CHECK-NEXT:    %g = texpr.grad %y : !texpr.tensor<10 | 2>
// CHECK-NEXT:    %v = texpr.value %y : !texpr.tensor<10 | 2>
// CHECK-NEXT:    texpr.forward %y
// CHECK-NEXT:  }
texpr.routine @owned {
  %x = texpr.data "x" : !texpr.tensor<10 | 2>
  %y = texpr.apply = neg(%x) logic "." : !texpr.tensor<...b0 | ...i1 -> ...o2>
  %g = texpr.grad %y : !texpr.tensor<...b0 | ...i1 -> ...o2>
  %v = texpr.value %y : !texpr.tensor<...b3 | ...i4 -> ...o5>
  texpr.forward %y
}

// A range has one axis: of the size that its use demands.
// CHECK-LABEL: texpr.routine @range {
// CHECK-NEXT:    %x = texpr.data "x" : !texpr.tensor<10 | 4>
// CHECK-NEXT:    %r = texpr.range : !texpr.tensor<4>
// CHECK-NEXT:    %y = texpr.apply = mul(%r, %x) logic "." : !texpr.tensor<10 | 4>
// CHECK-NEXT:  }
texpr.routine @range {
  %x = texpr.data "x" : !texpr.tensor<10 | 4>
  %r = texpr.range : !texpr.tensor<?d0>
  %y = texpr.apply = mul(%r, %x) logic "." : !texpr.tensor<...b1 | ...i2 -> ...o3>
}

// Flat data take what uses demand; the rest goes to the last open row.
// CHECK-LABEL: texpr.routine @flat {
// CHECK-NEXT:    %x = texpr.data "x" flat 12 : !texpr.tensor<4 | 3>
// CHECK-NEXT:    %w = texpr.param "w" : !texpr.tensor<3 -> 2>
// CHECK-NEXT:    %y = texpr.apply add= mul(%w, %x) logic "@" : !texpr.tensor<4 | 2>
// CHECK-NEXT:    %z = texpr.data "z" flat 5 : !texpr.tensor<5>
// CHECK-NEXT:  }
texpr.routine @flat {
  %x = texpr.data "x" flat 12 : !texpr.tensor<...b0 | ...i1 -> ...o2>
  %w = texpr.param "w" : !texpr.tensor<3 -> 2>
  %y = texpr.apply add= mul(%w, %x) logic "@" : !texpr.tensor<...b3 | ...i4 -> ...o5>
  %z = texpr.data "z" flat 5 : !texpr.tensor<...b6 | ...i7 -> ...o8>
}

// Random numbers take all that their uses allow, through expressions that are open, or the shape of a tensor.
// CHECK-LABEL: texpr.routine @random
// CHECK:         %u = texpr.uniform "u#1" at %step : !texpr.tensor<3 | 5>
// CHECK-NEXT:    %mask = texpr.apply = lt(%u, 0.5) logic "." : !texpr.tensor<3 | 5>
// CHECK:         %v = texpr.uniform "v#1" at %step : !texpr.tensor<1 | 5>
// CHECK:         %alone = texpr.uniform "w#1" at %step : !texpr.tensor<>
texpr.routine @random indices (step_n) {
  %x = texpr.data "x" : !texpr.tensor<3 | 5, f32>
  %one = texpr.data "one" : !texpr.tensor<1 | 5, f32>
  %step = texpr.embed step_n : !texpr.tensor<>
  %u = texpr.uniform "u#1" at %step : !texpr.tensor<...b0 | ...i1 -> ...o2>
  %mask = texpr.apply = lt(%u, 0.5) logic "." : !texpr.tensor<...b3 | ...i4 -> ...o5>
  %masked = texpr.apply = mul(%x, %mask) logic "." : !texpr.tensor<...b6 | ...i7 -> ...o8>
  %v = texpr.uniform "v#1" at %step like %one : !texpr.tensor<...b9 | ...i10 -> ...o11>
  %sum = texpr.apply = add(%v, %masked) logic "." : !texpr.tensor<...b12 | ...i13 -> ...o14>
  %alone = texpr.uniform "w#1" at %step : !texpr.tensor<...b15 | ...i16 -> ...o17>
  texpr.forward %sum
  texpr.forward %alone
}
