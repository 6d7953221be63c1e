// RUN: ocannl-opt %s -p infer-shapes | filecheck %s

// Operands broadcast to the result, from the right.
// CHECK-LABEL: texpr.routine @broadcast {
// CHECK-NEXT:    %x = texpr.data "x" : !texpr.tensor<5, 1, 3>
// CHECK-NEXT:    %y = texpr.data "y" : !texpr.tensor<4, 3>
// CHECK-NEXT:    %z = texpr.apply = add(%x, %y) logic "." : !texpr.tensor<5, 4, 3>
// CHECK-NEXT:    texpr.forward %z
// CHECK-NEXT:  }
texpr.routine @broadcast {
  %x = texpr.data "x" : !texpr.tensor<5, 1, 3>
  %y = texpr.data "y" : !texpr.tensor<4, 3>
  %z = texpr.apply = add(%x, %y) logic "." : !texpr.tensor<...b0 | ...i1 -> ...o2>
  texpr.forward %z
}

// Each row by itself.
// CHECK-LABEL: texpr.routine @rows {
// CHECK-NEXT:    %x = texpr.data "x" : !texpr.tensor<10 | 2 -> 1>
// CHECK-NEXT:    %y = texpr.data "y" : !texpr.tensor<3 -> 7>
// CHECK-NEXT:    %a = texpr.apply = neg(%x) logic "." : !texpr.tensor<10 | 2 -> 1>
// CHECK-NEXT:    %b = texpr.apply = neg(%y) logic "." : !texpr.tensor<3 -> 7>
// CHECK-NEXT:    texpr.forward %a
// CHECK-NEXT:    texpr.forward %b
// CHECK-NEXT:  }
texpr.routine @rows {
  %x = texpr.data "x" : !texpr.tensor<10 | 2 -> 1>
  %y = texpr.data "y" : !texpr.tensor<3 -> 7>
  %a = texpr.apply = neg(%x) logic "." : !texpr.tensor<...b0 | ...i1 -> ...o2>
  %b = texpr.apply = neg(%y) logic "." : !texpr.tensor<...b3 | ...i4 -> ...o5>
  texpr.forward %a
  texpr.forward %b
}

// A number has no axes; used alone it stays a number.
// CHECK-LABEL: texpr.routine @numbers {
// CHECK-NEXT:    %x = texpr.data "x" : !texpr.tensor<10 | 16>
// CHECK-NEXT:    %two = texpr.constant 2.0 : !texpr.tensor<10 | 16>
// CHECK-NEXT:    %alone = texpr.constant 3.0 : !texpr.tensor<>
// CHECK-NEXT:    %z = texpr.apply = mul(%x, %two) logic "." : !texpr.tensor<10 | 16>
// CHECK-NEXT:    %w = texpr.apply = neg(%alone) logic "." : !texpr.tensor<>
// CHECK-NEXT:    texpr.forward %z
// CHECK-NEXT:    texpr.forward %w
// CHECK-NEXT:  }
texpr.routine @numbers {
  %x = texpr.data "x" : !texpr.tensor<10 | 16>
  %two = texpr.constant 2.0 : !texpr.tensor<...b0 | ...i1 -> ...o2>
  %alone = texpr.constant 3.0 : !texpr.tensor<...b3 | ...i4 -> ...o5>
  %z = texpr.apply = mul(%x, %two) logic "." : !texpr.tensor<...b6 | ...i7 -> ...o8>
  %w = texpr.apply = neg(%alone) logic "." : !texpr.tensor<...b9 | ...i10 -> ...o11>
  texpr.forward %z
  texpr.forward %w
}

// Three operands.
// CHECK-LABEL: texpr.routine @ternary {
// CHECK-NEXT:    %c = texpr.data "c" : !texpr.tensor<10 | f32>
// CHECK-NEXT:    %x = texpr.data "x" : !texpr.tensor<4, f32>
// CHECK-NEXT:    %p = texpr.param "p" : !texpr.tensor<4>
// CHECK-NEXT:    %z = texpr.apply = where(%c, %x, %p) logic "." : !texpr.tensor<10 | 4>
// CHECK-NEXT:    texpr.forward %z
// CHECK-NEXT:  }
texpr.routine @ternary {
  %c = texpr.data "c" : !texpr.tensor<10 | f32>
  %x = texpr.data "x" : !texpr.tensor<4, f32>
  %p = texpr.param "p" : !texpr.tensor<...o0>
  %z = texpr.apply = where(%c, %x, %p) logic "." : !texpr.tensor<...b6 | ...i7 -> ...o8>
  texpr.forward %z
}

// A basis is kept; a size 1 without a basis broadcasts to it.
// CHECK-LABEL: texpr.routine @bases {
// CHECK-NEXT:    %x = texpr.data "x" : !texpr.tensor<3:rgb>
// CHECK-NEXT:    %y = texpr.data "y" : !texpr.tensor<4, 1>
// CHECK-NEXT:    %z = texpr.apply = add(%x, %y) logic "." : !texpr.tensor<4, 3:rgb>
// CHECK-NEXT:    texpr.forward %z
// CHECK-NEXT:  }
texpr.routine @bases {
  %x = texpr.data "x" : !texpr.tensor<3:rgb>
  %y = texpr.data "y" : !texpr.tensor<4, 1>
  %z = texpr.apply = add(%x, %y) logic "." : !texpr.tensor<...b0 | ...i1 -> ...o2>
  texpr.forward %z
}

// A row that was split by its writer broadcasts at the split.
// CHECK-LABEL: texpr.routine @split {
// CHECK-NEXT:    %x = texpr.data "x" : !texpr.tensor<10, ..., 3>
// CHECK-NEXT:    %y = texpr.data "y" : !texpr.tensor<10, 5, 3>
// CHECK-NEXT:    %z = texpr.apply = add(%x, %y) logic "." : !texpr.tensor<10, 5, 3>
// CHECK-NEXT:    texpr.forward %z
// CHECK-NEXT:  }
texpr.routine @split {
  %x = texpr.data "x" : !texpr.tensor<10, ..., 3>
  %y = texpr.data "y" : !texpr.tensor<10, 5, 3>
  %z = texpr.apply = add(%x, %y) logic "." : !texpr.tensor<...b0 | ...i1 -> ...o2>
  texpr.forward %z
}

// A merge buffer is of the shape of the memory whose value it has, whichever is known.
// CHECK-LABEL: texpr.routine @merges {
// CHECK-NEXT:    %w = texpr.param "w" : !texpr.tensor<3 -> 2, f32>
// CHECK-NEXT:    %m = texpr.merge "w.merge" of %w from 0 : !texpr.tensor<3 -> 2, f32>
texpr.routine @merges {
  %w = texpr.param "w" : !texpr.tensor<...i0 -> ...o1, f32>
  %m = texpr.merge "w.merge" of %w from 0 : !texpr.tensor<...b2 | ...i3 -> ...o4, f32>
  %n = texpr.node "n" : !texpr.tensor<3 -> 2, f32>
  texpr.assign %n = %m logic "."
}
