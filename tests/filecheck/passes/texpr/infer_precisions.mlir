// RUN: ocannl-opt %s -p infer-precisions | filecheck %s

// Up: the widest float of the operands.
// CHECK-LABEL: texpr.routine @up {
// CHECK-NEXT:    %x = texpr.data "x" : !texpr.tensor<4, f32>
// CHECK-NEXT:    %y = texpr.data "y" : !texpr.tensor<4, f64>
// CHECK-NEXT:    %a = texpr.apply = neg(%x) logic "." : !texpr.tensor<4, f32>
// CHECK-NEXT:    %b = texpr.apply = add(%a, %y) logic "." : !texpr.tensor<4, f64>
// CHECK-NEXT:    %c = texpr.slice %b at 0 : !texpr.tensor<f64>
// CHECK-NEXT:  }
texpr.routine @up {
  %x = texpr.data "x" : !texpr.tensor<4, f32>
  %y = texpr.data "y" : !texpr.tensor<4, f64>
  %a = texpr.apply = neg(%x) logic "." : !texpr.tensor<4>
  %b = texpr.apply = add(%a, %y) logic "." : !texpr.tensor<4>
  %c = texpr.slice %b at 0 : !texpr.tensor<f64>
}

// Down: leaves have the precision of what they are used for.
// CHECK-LABEL: texpr.routine @down {
// CHECK-NEXT:    %x = texpr.data "x" : !texpr.tensor<4, f64>
// CHECK-NEXT:    %w = texpr.param "w" : !texpr.tensor<4, f64>
// CHECK-NEXT:    %two = texpr.constant 2.0 : !texpr.tensor<4, f64>
// CHECK-NEXT:    %a = texpr.apply = mul(%w, %x) logic "." : !texpr.tensor<4, f64>
// CHECK-NEXT:    %b = texpr.apply = mul(%a, %two) logic "." : !texpr.tensor<4, f64>
// CHECK-NEXT:  }
texpr.routine @down {
  %x = texpr.data "x" : !texpr.tensor<4, f64>
  %w = texpr.param "w" : !texpr.tensor<4>
  %two = texpr.constant 2.0 : !texpr.tensor<4>
  %a = texpr.apply = mul(%w, %x) logic "." : !texpr.tensor<4>
  %b = texpr.apply = mul(%a, %two) logic "." : !texpr.tensor<4>
}

// Integers are converted where floats are computed.
// CHECK-LABEL: texpr.routine @integers {
// CHECK-NEXT:    %i = texpr.data "i" : !texpr.tensor<4, i64>
// CHECK-NEXT:    %x = texpr.data "x" : !texpr.tensor<4, f64>
// CHECK-NEXT:    %a = texpr.apply = mul(%i, %x) logic "." : !texpr.tensor<4, f64>
// CHECK-NEXT:    %b = texpr.apply = neg(%i) logic "." : !texpr.tensor<4, i64>
// CHECK-NEXT:    %g = texpr.grad %i : !texpr.tensor<4, f32>
// CHECK-NEXT:  }
texpr.routine @integers {
  %i = texpr.data "i" : !texpr.tensor<4, i64>
  %x = texpr.data "x" : !texpr.tensor<4, f64>
  %a = texpr.apply = mul(%i, %x) logic "." : !texpr.tensor<4>
  %b = texpr.apply = neg(%i) logic "." : !texpr.tensor<4>
  %g = texpr.grad %i : !texpr.tensor<4>
}

// What is given stays.
// CHECK-LABEL: texpr.routine @given {
// CHECK-NEXT:    %x = texpr.data "x" : !texpr.tensor<4, f64>
// CHECK-NEXT:    %w = texpr.param "w" : !texpr.tensor<4, f32>
// CHECK-NEXT:    %a = texpr.apply = mul(%w, %x) logic "." : !texpr.tensor<4, f32>
// CHECK-NEXT:    %b = texpr.apply = neg(%a) logic "." : !texpr.tensor<4, f32>
// CHECK-NEXT:  }
texpr.routine @given {
  %x = texpr.data "x" : !texpr.tensor<4, f64>
  %w = texpr.param "w" : !texpr.tensor<4, f32>
  %a = texpr.apply = mul(%w, %x) logic "." : !texpr.tensor<4, f32>
  %b = texpr.apply = neg(%a) logic "." : !texpr.tensor<4>
}

// Memory of a tensor, and assigned memory.
// CHECK-LABEL: texpr.routine @memory {
// CHECK-NEXT:    %x = texpr.data "x" : !texpr.tensor<4, f64>
// CHECK-NEXT:    %a = texpr.apply = neg(%x) logic "." : !texpr.tensor<4, f64>
// CHECK-NEXT:    %g = texpr.grad %a : !texpr.tensor<4, f64>
// CHECK-NEXT:    %v = texpr.value %a : !texpr.tensor<4, f64>
// CHECK-NEXT:    %n = texpr.node "n" : !texpr.tensor<4, f64>
// CHECK-NEXT:    texpr.assign %n = %a logic "."
// CHECK-NEXT:  }
texpr.routine @memory {
  %x = texpr.data "x" : !texpr.tensor<4, f64>
  %a = texpr.apply = neg(%x) logic "." : !texpr.tensor<4>
  %g = texpr.grad %a : !texpr.tensor<4>
  %v = texpr.value %a : !texpr.tensor<4>
  %n = texpr.node "n" : !texpr.tensor<4>
  texpr.assign %n = %a logic "."
}

// Nothing is known: f32, and i32 for whole numbers that no float is computed from.
// CHECK-LABEL: texpr.routine @nothing {
// CHECK-NEXT:    %w = texpr.param "w" : !texpr.tensor<4, f32>
// CHECK-NEXT:    %r = texpr.range : !texpr.tensor<4, f32>
// CHECK-NEXT:    %e = texpr.embed 3 : !texpr.tensor<4, i32>
// CHECK-NEXT:    %c = texpr.constant 3.0 : !texpr.tensor<4, f32>
// CHECK-NEXT:    %a = texpr.apply = fma(%w, %r, %c) logic "." : !texpr.tensor<4, f32>
// CHECK-NEXT:  }
texpr.routine @nothing {
  %w = texpr.param "w" : !texpr.tensor<4>
  %r = texpr.range : !texpr.tensor<4>
  %e = texpr.embed 3 : !texpr.tensor<4>
  %c = texpr.constant 3.0 : !texpr.tensor<4>
  %a = texpr.apply = fma(%w, %r, %c) logic "." : !texpr.tensor<4>
}

// Two different floats of 8 or 16 bits have f32 in common.
// CHECK-LABEL: texpr.routine @small {
// CHECK:         %a = texpr.apply = neg(%h) logic "." : !texpr.tensor<4, bf16>
// CHECK-NEXT:    %b = texpr.apply = add(%a, %h) logic "." : !texpr.tensor<4, bf16>
// CHECK-NEXT:    %c = texpr.apply = add(%e, %h) logic "." : !texpr.tensor<4, f32>
// CHECK-NEXT:  }
texpr.routine @small {
  %h = texpr.data "h" : !texpr.tensor<4, bf16>
  %e = texpr.data "e" : !texpr.tensor<4, f8E5M2>
  %a = texpr.apply = neg(%h) logic "." : !texpr.tensor<4>
  %b = texpr.apply = add(%a, %h) logic "." : !texpr.tensor<4>
  %c = texpr.apply = add(%e, %h) logic "." : !texpr.tensor<4>
}

// What numbers and positions alone give is at least f32; parameters are what they are used for.
// CHECK-LABEL: texpr.routine @numbers {
// CHECK:         %w = texpr.param "w" : !texpr.tensor<4, bf16>
// CHECK-NEXT:    %at = texpr.range : !texpr.tensor<4, f32>
// CHECK-NEXT:    %two = texpr.constant 2.0 : !texpr.tensor<4, f32>
// CHECK-NEXT:    %a = texpr.apply = mul(%at, %two) logic "." : !texpr.tensor<4, f32>
// CHECK-NEXT:    %b = texpr.apply = mul(%h, %a) logic "." : !texpr.tensor<4, bf16>
// CHECK-NEXT:    %c = texpr.apply = mul(%w, %b) logic "." : !texpr.tensor<4, bf16>
// CHECK-NEXT:  }
texpr.routine @numbers {
  %h = texpr.data "h" : !texpr.tensor<4, bf16>
  %w = texpr.param "w" : !texpr.tensor<4>
  %at = texpr.range : !texpr.tensor<4>
  %two = texpr.constant 2.0 : !texpr.tensor<4>
  %a = texpr.apply = mul(%at, %two) logic "." : !texpr.tensor<4>
  %b = texpr.apply = mul(%h, %a) logic "." : !texpr.tensor<4>
  %c = texpr.apply = mul(%w, %b) logic "." : !texpr.tensor<4>
}

// Nodes are at least f32, and so is what is computed with them.
// CHECK-LABEL: texpr.routine @state {
// CHECK:         %w = texpr.param "w" : !texpr.tensor<4, bf16>
// CHECK-NEXT:    %mean = texpr.node "mean" : !texpr.tensor<4, f32>
// CHECK-NEXT:    %half = texpr.constant 0.5 : !texpr.tensor<4, f32>
// CHECK-NEXT:    %a = texpr.apply = mul(%half, %mean) logic "." : !texpr.tensor<4, f32>
// CHECK-NEXT:    %b = texpr.apply = mul(%half, %w) logic "." : !texpr.tensor<4, bf16>
// CHECK-NEXT:    %c = texpr.apply = add(%a, %b) logic "." : !texpr.tensor<4, f32>
texpr.routine @state {
  %w = texpr.param "w" : !texpr.tensor<4, bf16>
  %mean = texpr.node "mean" : !texpr.tensor<4>
  %half = texpr.constant 0.5 : !texpr.tensor<4>
  %a = texpr.apply = mul(%half, %mean) logic "." : !texpr.tensor<4>
  %b = texpr.apply = mul(%half, %w) logic "." : !texpr.tensor<4>
  %c = texpr.apply = add(%a, %b) logic "." : !texpr.tensor<4>
  texpr.assign %mean = %c logic "."
}

// Down from results that are given.
// CHECK-LABEL: texpr.routine @given_result {
// CHECK-NEXT:    %w = texpr.param "w" : !texpr.tensor<4, f64>
// CHECK-NEXT:    %i = texpr.data "i" : !texpr.tensor<4, i64>
// CHECK-NEXT:    %a = texpr.apply = neg(%w) logic "." : !texpr.tensor<4, f64>
// CHECK-NEXT:    %v = texpr.param "v" : !texpr.tensor<2, 4, f64>
// CHECK-NEXT:    %s = texpr.slice %v at 0 : !texpr.tensor<4, f64>
// CHECK-NEXT:  }
texpr.routine @given_result {
  %w = texpr.param "w" : !texpr.tensor<4>
  %i = texpr.data "i" : !texpr.tensor<4, i64>
  %a = texpr.apply = neg(%w) logic "." : !texpr.tensor<4, f64>
  %v = texpr.param "v" : !texpr.tensor<2, 4>
  %s = texpr.slice %v at 0 : !texpr.tensor<4, f64>
}

// Integers are combined in the narrowest type that has all of both; truth values count as i32, quotients are floats.
// CHECK-LABEL: texpr.routine @combined {
// CHECK:         %a = texpr.apply = add(%i, %u) logic "." : !texpr.tensor<4, i16>
// CHECK-NEXT:    %b = texpr.apply = lt(%i, %u) logic "." : !texpr.tensor<4, i1>
// CHECK-NEXT:    %c = texpr.apply = add(%b, %b) logic "." : !texpr.tensor<4, i32>
// CHECK-NEXT:    %d = texpr.apply = bitwise_and(%b, %b) logic "." : !texpr.tensor<4, i1>
// CHECK-NEXT:    %e = texpr.apply = div(%i, %u) logic "." : !texpr.tensor<4, f32>
// CHECK-NEXT:    %f = texpr.apply = exp(%j) logic "." : !texpr.tensor<4, f64>
// CHECK-NEXT:    %g = texpr.apply = mul(%i, %h) logic "." : !texpr.tensor<4, f16>
// CHECK-NEXT:    %s = texpr.apply add= %b logic "a => " : !texpr.tensor<i32>
// CHECK-NEXT:    %m = texpr.apply max= %b logic "a => " : !texpr.tensor<i1>
// CHECK-NEXT:    %o = texpr.apply or= %h logic "a => " : !texpr.tensor<i1>
// CHECK-NEXT:  }
texpr.routine @combined {
  %i = texpr.data "i" : !texpr.tensor<4, i8>
  %u = texpr.data "u" : !texpr.tensor<4, ui8>
  %j = texpr.data "j" : !texpr.tensor<4, i64>
  %h = texpr.data "h" : !texpr.tensor<4, f16>
  %a = texpr.apply = add(%i, %u) logic "." : !texpr.tensor<4>
  %b = texpr.apply = lt(%i, %u) logic "." : !texpr.tensor<4>
  %c = texpr.apply = add(%b, %b) logic "." : !texpr.tensor<4>
  %d = texpr.apply = bitwise_and(%b, %b) logic "." : !texpr.tensor<4>
  %e = texpr.apply = div(%i, %u) logic "." : !texpr.tensor<4>
  %f = texpr.apply = exp(%j) logic "." : !texpr.tensor<4>
  %g = texpr.apply = mul(%i, %h) logic "." : !texpr.tensor<4>
  %s = texpr.apply add= %b logic "a => " : !texpr.tensor<>
  %m = texpr.apply max= %b logic "a => " : !texpr.tensor<>
  %o = texpr.apply or= %h logic "a => " : !texpr.tensor<>
}

// Whole numbers take the type of what they stand beside, and positions have 32 bits at least.
// CHECK-LABEL: texpr.routine @whole_numbers {
// CHECK:         %two = texpr.constant 2 : !texpr.tensor<4, i32>
// CHECK-NEXT:    %at = texpr.range : !texpr.tensor<4, i32>
// CHECK-NEXT:    %other = texpr.range : !texpr.tensor<4, f32>
// CHECK-NEXT:    %a = texpr.apply = mul(%i, 2) logic "." : !texpr.tensor<4, i8>
// CHECK-NEXT:    %b = texpr.apply = mul(%i, %two) logic "." : !texpr.tensor<4, i8>
// CHECK-NEXT:    %c = texpr.apply = eq(%i, %at) logic "." : !texpr.tensor<4, i1>
// CHECK-NEXT:    %d = texpr.apply = mul(%i, 2.0) logic "." : !texpr.tensor<4, f32>
// CHECK-NEXT:    %e = texpr.apply = mul(%x, 2.0) logic "." : !texpr.tensor<4, f32>
// CHECK-NEXT:    %f = texpr.apply = lt(%x, 2.0) logic "." : !texpr.tensor<4, i1>
// CHECK-NEXT:    %g = texpr.apply = add(%other, %x) logic "." : !texpr.tensor<4, f32>
// CHECK-NEXT:    %h = texpr.apply max= where(%c, %i, -128) logic "." : !texpr.tensor<4, i8>
// CHECK-NEXT:  }
texpr.routine @whole_numbers {
  %i = texpr.data "i" : !texpr.tensor<4, i8>
  %x = texpr.data "x" : !texpr.tensor<4, f32>
  %two = texpr.constant 2 : !texpr.tensor<4>
  %at = texpr.range : !texpr.tensor<4>
  %other = texpr.range : !texpr.tensor<4>
  %a = texpr.apply = mul(%i, 2) logic "." : !texpr.tensor<4>
  %b = texpr.apply = mul(%i, %two) logic "." : !texpr.tensor<4>
  %c = texpr.apply = eq(%i, %at) logic "." : !texpr.tensor<4>
  %d = texpr.apply = mul(%i, 2.0) logic "." : !texpr.tensor<4>
  %e = texpr.apply = mul(%x, 2) logic "." : !texpr.tensor<4>
  %f = texpr.apply = lt(%x, 2) logic "." : !texpr.tensor<4>
  %g = texpr.apply = add(%other, %x) logic "." : !texpr.tensor<4>
  %h = texpr.apply max= where(%c, %i, -inf) logic "." : !texpr.tensor<4>
}

// So do literals, whatever they are read from; then they are conversions.
// CHECK-LABEL: texpr.routine @literals {
// CHECK:         %two = texpr.apply = %n logic "." : !texpr.tensor<i32>
// CHECK-NEXT:    %rate = texpr.apply = %r logic "." : !texpr.tensor<f32>
// CHECK-NEXT:    %wide = texpr.apply = %r logic "." : !texpr.tensor<f64>
// CHECK-NEXT:    %a = texpr.apply = mul(%i, %two) logic "." : !texpr.tensor<4, i8>
// CHECK-NEXT:    %b = texpr.apply = mul(%h, %rate) logic "." : !texpr.tensor<4, f16>
// CHECK-NEXT:    %c = texpr.apply = mul(%i, %rate) logic "." : !texpr.tensor<4, f32>
// CHECK-NEXT:    %d = texpr.apply = where(lt(%i, 2), %wide, 0.0) logic "." : !texpr.tensor<4, f64>
// CHECK-NEXT:    %e = texpr.apply = mul(%d, %x) logic "." : !texpr.tensor<4, f64>
// CHECK-NEXT:  }
texpr.routine @literals {
  %n = texpr.data "n" : !texpr.tensor<i64>
  %r = texpr.data "r" : !texpr.tensor<f64>
  %i = texpr.data "i" : !texpr.tensor<4, i8>
  %h = texpr.data "h" : !texpr.tensor<4, f16>
  %x = texpr.data "x" : !texpr.tensor<4, f64>
  %two = texpr.apply = %n logic "." literal : !texpr.tensor<>
  %rate = texpr.apply = %r logic "." literal : !texpr.tensor<>
  %wide = texpr.apply = %r logic "." literal : !texpr.tensor<>
  %a = texpr.apply = mul(%i, %two) logic "." : !texpr.tensor<4>
  %b = texpr.apply = mul(%h, %rate) logic "." : !texpr.tensor<4>
  %c = texpr.apply = mul(%i, %rate) logic "." : !texpr.tensor<4>
  %d = texpr.apply = where(lt(%i, 2), %wide, 0.0) logic "." : !texpr.tensor<4>
  %e = texpr.apply = mul(%d, %x) logic "." : !texpr.tensor<4>
}

// A carry that begins with a number is as wide as what is yielded, also where that is known late.
// CHECK-LABEL: texpr.routine @carried {
// CHECK:         %c = texpr.constant 0.0 : !texpr.tensor<4, f64>
// CHECK-NEXT:    %last, %ys = texpr.scan t = 3 carry (%h = %c : !texpr.tensor<4, f64>) each (%x = %xs at batch -1 : !texpr.tensor<4, f64>) with (%v = %w) {
// CHECK-NEXT:      %a = texpr.apply add= mul(%v, %h) logic "@" : !texpr.tensor<4, f64>
// CHECK-NEXT:      %b = texpr.apply = add(%x, %a) logic "." : !texpr.tensor<4, f64>
// CHECK-NEXT:      texpr.yield carry (%b) each (%b at batch -1)
// CHECK-NEXT:    } : !texpr.tensor<4, f64>, !texpr.tensor<3 | 4, f64>
texpr.routine @carried {
  %w = texpr.data "w" : !texpr.tensor<4 -> 4, f32>
  %xs = texpr.data "xs" : !texpr.tensor<3 | 4, f64>
  %c = texpr.constant 0.0 : !texpr.tensor<4>
  %last, %ys = texpr.scan t = 3 carry (%h = %c : !texpr.tensor<4>) each (%x = %xs at batch -1 : !texpr.tensor<4>) with (%v = %w) {
    %a = texpr.apply add= mul(%v, %h) logic "@" : !texpr.tensor<4>
    %b = texpr.apply = add(%x, %a) logic "." : !texpr.tensor<4>
    texpr.yield carry (%b) each (%b at batch -1)
  } : !texpr.tensor<4>, !texpr.tensor<3 | 4>
}

// A merge buffer is of the type of the memory whose value it has, integers too; each tells the other.
// CHECK-LABEL: texpr.routine @merges {
// CHECK-NEXT:    %n = texpr.node "n" : !texpr.tensor<4, i32>
// CHECK-NEXT:    %n_merge = texpr.merge "n.merge" of %n from 0 : !texpr.tensor<4, i32>
// CHECK-NEXT:    %w = texpr.param "w" : !texpr.tensor<4, f64>
// CHECK-NEXT:    %w_merge = texpr.merge "w.merge" of %w from 0 : !texpr.tensor<4, f64>
texpr.routine @merges {
  %n = texpr.node "n" : !texpr.tensor<4, i32>
  %n_merge = texpr.merge "n.merge" of %n from 0 : !texpr.tensor<4>
  %w = texpr.param "w" : !texpr.tensor<4>
  %w_merge = texpr.merge "w.merge" of %w from 0 : !texpr.tensor<4>
  %x = texpr.data "x" : !texpr.tensor<4, f64>
  texpr.assign %n = %n_merge logic "."
  %y = texpr.apply = add(%w_merge, %x) logic "." : !texpr.tensor<4>
  texpr.forward %y
}

// Truth values are counted, unless they are only moved: transposed, joined, read by windows, or taken by ids.
// CHECK-LABEL: texpr.routine @moved {
// CHECK:         %t = texpr.apply add= %x logic "i j => j i" : !texpr.tensor<4, 3, i1>
// CHECK-NEXT:    %c = texpr.apply add= add(%x, %x) logic "a, j; b, j => a^b, j" : !texpr.tensor<6, 4, i1>
// CHECK-NEXT:    %w = texpr.apply add= %x logic "i, 1*o <+ k => i, o, k" dims <k = 2> : !texpr.tensor<3, 3, 2, i1>
// CHECK-NEXT:    %g = texpr.apply add= where(eq(%ids, %p), %x, 0) logic "n; i; i j => n j" : !texpr.tensor<5, 4, i1>
// CHECK-NEXT:    %s = texpr.apply add= %x logic "i j => j" : !texpr.tensor<4, i32>
// CHECK-NEXT:    %o = texpr.apply add= %x logic "o, k => o + k" : !texpr.tensor<6, i32>
// CHECK-NEXT:    %r = texpr.apply add= where(eq(%ids, %p), %x, 0) logic "n; i; i j => n" : !texpr.tensor<5, i32>
// CHECK-NEXT:    %b = texpr.apply add= add(%x, %x) logic "i j; i j => i j" : !texpr.tensor<3, 4, i32>
texpr.routine @moved {
  %x = texpr.data "x" : !texpr.tensor<3, 4, i1>
  %ids = texpr.data "ids" : !texpr.tensor<5, i32>
  %p = texpr.range : !texpr.tensor<3>
  %t = texpr.apply add= %x logic "i j => j i" : !texpr.tensor<4, 3>
  %c = texpr.apply add= add(%x, %x) logic "a, j; b, j => a^b, j" : !texpr.tensor<6, 4>
  %w = texpr.apply add= %x logic "i, 1*o <+ k => i, o, k" dims <k = 2> : !texpr.tensor<3, 3, 2>
  %g = texpr.apply add= where(eq(%ids, %p), %x, 0.0) logic "n; i; i j => n j" : !texpr.tensor<5, 4>
  %s = texpr.apply add= %x logic "i j => j" : !texpr.tensor<4>
  %o = texpr.apply add= %x logic "o, k => o + k" : !texpr.tensor<6>
  %r = texpr.apply add= where(eq(%ids, %p), %x, 0.0) logic "n; i; i j => n" : !texpr.tensor<5>
  %b = texpr.apply add= add(%x, %x) logic "i j; i j => i j" : !texpr.tensor<3, 4>
}

// What a body reads has the widest type that it is used with, inside and outside; so have its results.
// CHECK-LABEL: texpr.routine @captured {
// CHECK:    %w = texpr.param "w" : !texpr.tensor<4, f64>
// CHECK:      texpr.yield carry (%h) each (%p at batch -1)
// CHECK-NEXT:    } : !texpr.tensor<f32>, !texpr.tensor<3 | 4, f64>
// CHECK:    %a = texpr.apply = add(%w, %y) logic "." : !texpr.tensor<4, f64>
// CHECK-NEXT:    %b = texpr.apply = add(%a, %ys) logic "." : !texpr.tensor<3 | 4, f64>
texpr.routine @captured {
  %c = texpr.constant 0.0 : !texpr.tensor<>
  %xs = texpr.data "xs" : !texpr.tensor<3 | f64>
  %y = texpr.data "y" : !texpr.tensor<4, f32>
  %w = texpr.param "w" : !texpr.tensor<4>
  %last, %ys = texpr.scan t = 3 carry (%h = %c : !texpr.tensor<>) each (%x = %xs at batch -1 : !texpr.tensor<>) with (%v = %w) {
    %p = texpr.apply = mul(%v, %x) logic "." : !texpr.tensor<4>
    texpr.yield carry (%h) each (%p at batch -1)
  } : !texpr.tensor<>, !texpr.tensor<3 | 4>
  %a = texpr.apply = add(%w, %y) logic "." : !texpr.tensor<4>
  %b = texpr.apply = add(%a, %ys) logic "." : !texpr.tensor<3 | 4>
}

// A cast of memory that code writes is no longer such memory.
// CHECK-LABEL: texpr.routine @cast {
// CHECK-NEXT:    %x = texpr.data "x" : !texpr.tensor<4, bf16>
// CHECK-NEXT:    %n = texpr.node "n" : !texpr.tensor<4, bf16>
// CHECK-NEXT:    %c = texpr.apply [i] = %n[i] over (i = 4) : !texpr.tensor<4, bf16>
// CHECK-NEXT:    %a = texpr.apply = mul(%n, %x) logic "." : !texpr.tensor<4, f32>
// CHECK-NEXT:    %b = texpr.apply = mul(%c, %x) logic "." : !texpr.tensor<4, bf16>
// CHECK-NEXT:  }
texpr.routine @cast {
  %x = texpr.data "x" : !texpr.tensor<4, bf16>
  %n = texpr.node "n" : !texpr.tensor<4, bf16>
  %c = texpr.apply [i] = %n[i] over (i = 4) : !texpr.tensor<4, bf16>
  %a = texpr.apply = mul(%n, %x) logic "." : !texpr.tensor<4>
  %b = texpr.apply = mul(%c, %x) logic "." : !texpr.tensor<4>
}
