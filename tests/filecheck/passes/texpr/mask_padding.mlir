// RUN: ocannl-opt %s --split-input-file --verify-diagnostics -p mask-padding | filecheck %s

// A reduction is masked by the real size; what keeps the axis is not.
// CHECK-LABEL: texpr.routine @reductions
// CHECK:         %[[COUNT:.*]] = texpr.embed n : !texpr.tensor<i32>
// CHECK-NEXT:    %[[AT:.*]] = texpr.range : !texpr.tensor<16:n, i32>
// CHECK:         %e = texpr.apply [b, o] = exp(%x[b, o]) over (b = 16, o = 2) : !texpr.tensor<16:n | 2, f32>
// CHECK-NEXT:    %top = texpr.apply [o] max= where(lt(%[[AT]][b], %[[COUNT]][]), %e[b, o], -inf) over (o = 2, b = 16)
// CHECK-NEXT:    %products = texpr.apply [o, p] add= where(lt(%[[AT]][b], %[[COUNT]][]), mul(%x[b, o], %x[b, p]), 0.0) over
// CHECK-NEXT:    %rows = texpr.apply [b] add= %x[b, o] over (b = 16, o = 2) : !texpr.tensor<16:n | f32>
// CHECK-NEXT:    %[[MASKED:.*]] = texpr.apply [i, i1] = where(lt(%[[AT]][i], %[[COUNT]][]), %x[i, i1], 0.0) over (i = 16, i1 = 2)
// CHECK-NEXT:    texpr.assign %m[o] add= %[[MASKED]][b, o] over (o = 2, b = 16)
texpr.routine @reductions indices (n = 17) {
  %x = texpr.data "x" : !texpr.tensor<16:n | 2, f32>
  %m = texpr.node "m" : !texpr.tensor<2, f32>
  %e = texpr.apply [b, o] = exp(%x[b, o]) over (b = 16, o = 2) : !texpr.tensor<16:n | 2, f32>
  %top = texpr.apply [o] max= %e[b, o] over (o = 2, b = 16) : !texpr.tensor<2, f32>
  %products = texpr.apply [o, p] add= mul(%x[b, o], %x[b, p]) over (o = 2, p = 2, b = 16) : !texpr.tensor<2, 2, f32>
  %rows = texpr.apply [b] add= %x[b, o] over (b = 16, o = 2) : !texpr.tensor<16:n | f32>
  texpr.assign %m[o] add= %x[b, o] over (o = 2, b = 16)
  texpr.forward %top
}

// -----

// The rows of a cotangent that are not real count as 0.
// CHECK-LABEL: texpr.routine @pulled_back
// CHECK:         %y = texpr.apply [b] = sin(%x[b]) over (b = 16) : !texpr.tensor<16:n | f32>
// CHECK-NEXT:    %[[MASKED:.*]] = texpr.apply [i] = where(lt(%{{.*}}[i], %{{.*}}[]), %y[i], 0.0) over (i = 16) : !texpr.tensor<16:n | f32>
// CHECK-NEXT:    %g = texpr.vjp %y wrt %x from %[[MASKED]] : !texpr.tensor<16:n | f32>
texpr.routine @pulled_back indices (n = 17) {
  %x = texpr.data "x" : !texpr.tensor<16:n | f32>
  %y = texpr.apply [b] = sin(%x[b]) over (b = 16) : !texpr.tensor<16:n | f32>
  %g = texpr.vjp %y wrt %x from %y : !texpr.tensor<16:n | f32>
}

// -----

texpr.routine @seeded indices (n = 17) {
  %x = texpr.data "x" : !texpr.tensor<16:n | f32>
  %y = texpr.apply [b] = sin(%x[b]) over (b = 16) : !texpr.tensor<16:n | f32>
  // expected-error @below {{the sum of its gradient would have padded rows}}
  %g = texpr.vjp %y wrt %x : !texpr.tensor<16:n | f32>
}

// -----

// Other bases are units.
// CHECK-LABEL: texpr.routine @units
// CHECK:         %s = texpr.apply [0] add= %x[o] over (o = 3) : !texpr.tensor<1, f32>
texpr.routine @units indices (n = 17) {
  %x = texpr.data "x" : !texpr.tensor<3:rgb, f32>
  %s = texpr.apply [0] add= %x[o] over (o = 3) : !texpr.tensor<1, f32>
}

// -----

texpr.routine @part indices (n = 17) {
  %x = texpr.data "x" : !texpr.tensor<16:n, f32>
  // expected-error @below {{a part of a padded axis may have rows that are not real}}
  %y = texpr.apply [] = %x[3] over () : !texpr.tensor<f32>
}

// -----

texpr.routine @merged indices (n = 17) {
  %x = texpr.data "x" : !texpr.tensor<16:n | 2, f32>
  // expected-error @below {{a padded axis is combined with others}}
  %y = texpr.apply [2*b + o] = %x[b, o] over (b = 16, o = 2) : !texpr.tensor<32, f32>
}

// -----

texpr.routine @gradient indices (n = 17) {
  %x = texpr.param "x" : !texpr.tensor<16:n, f32>
  // expected-error @below {{the sum of its gradient would have padded rows: take its mean}}
  texpr.backprop %x
}
