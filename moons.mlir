builtin.module {
  assign.routine @moons_step indices (batch_n = 80, step_n) {
    %labels = assign.node "labels" constant because "data" : memref<80x10x1xf32>
    %mlp_w3 = assign.node "mlp.w3" on_device because "parameter" : memref<1x16xf32>
    %mlp_b2 = assign.node "mlp.b2" on_device because "parameter" : memref<16xf32>
    %mlp_w2 = assign.node "mlp.w2" on_device because "parameter" : memref<16x16xf32>
    %mlp_b1 = assign.node "mlp.b1" on_device because "parameter" : memref<16xf32>
    %mlp_w1 = assign.node "mlp.w1" on_device because "parameter" : memref<16x2xf32>
    %moons = assign.node "moons" constant because "data" : memref<80x10x2xf32>
    %loss = assign.node "loss" on_device because "computed by forward" : memref<1xf32>
    %loss_grad = assign.node "loss.grad" on_device because "gradient" : memref<1xf32>
    %mlp_w3_grad = assign.node "mlp.w3.grad" on_device because "gradient" : memref<1x16xf32>
    %mlp_b2_grad = assign.node "mlp.b2.grad" on_device because "gradient" : memref<16xf32>
    %mlp_w2_grad = assign.node "mlp.w2.grad" on_device because "gradient" : memref<16x16xf32>
    %mlp_b1_grad = assign.node "mlp.b1.grad" on_device because "gradient" : memref<16xf32>
    %mlp_w1_grad = assign.node "mlp.w1.grad" on_device because "gradient" : memref<16x2xf32>
    %n1 = assign.node "n1" local because "intermediate value" : memref<10x1xf32>
    %n8 = assign.node "n8" local because "intermediate value" : memref<10x2xf32>
    %n9 = assign.node "n9" local because "intermediate value" : memref<10x16xf32>
    %n10 = assign.node "n10" local because "intermediate value" : memref<10x16xf32>
    %relu = assign.node "relu" local because "intermediate value" : memref<10x16xf32>
    %n12 = assign.node "n12" local because "intermediate value" : memref<10x16xf32>
    %n13 = assign.node "n13" local because "intermediate value" : memref<10x16xf32>
    %relu2 = assign.node "relu2" local because "intermediate value" : memref<10x16xf32>
    %n15 = assign.node "n15" local because "intermediate value" : memref<10x1xf32>
    %n16 = assign.node "n16" local because "intermediate value" : memref<10x1xf32>
    %n17 = assign.node "n17" local because "intermediate value" : memref<10x1xf32>
    %relu3 = assign.node "relu3" local because "intermediate value" : memref<10x1xf32>
    %n19 = assign.node "n19" local because "intermediate value" : memref<1xf32>
    %n19_grad = assign.node "n19_grad" local because "intermediate value" : memref<1xf32>
    %relu3_grad = assign.node "relu3_grad" local because "intermediate value" : memref<10x1xf32>
    %n17_grad = assign.node "n17_grad" local because "intermediate value" : memref<10x1xf32>
    %n16_grad = assign.node "n16_grad" local because "intermediate value" : memref<10x1xf32>
    %n15_grad = assign.node "n15_grad" local because "intermediate value" : memref<10x1xf32>
    %relu2_grad = assign.node "relu2_grad" local because "intermediate value" : memref<10x16xf32>
    %n13_grad = assign.node "n13_grad" local because "intermediate value" : memref<10x16xf32>
    %n12_grad = assign.node "n12_grad" local because "intermediate value" : memref<10x16xf32>
    %relu_grad = assign.node "relu_grad" local because "intermediate value" : memref<10x16xf32>
    %n10_grad = assign.node "n10_grad" local because "intermediate value" : memref<10x16xf32>
    %n9_grad = assign.node "n9_grad" local because "intermediate value" : memref<10x16xf32>
    %mlp_w1_grad_1 = assign.node "mlp_w1_grad" local because "intermediate value" : memref<16x2xf32>
    %mlp_b1_grad_1 = assign.node "mlp_b1_grad" local because "intermediate value" : memref<16xf32>
    %mlp_w2_grad_1 = assign.node "mlp_w2_grad" local because "intermediate value" : memref<16x16xf32>
    %mlp_b2_grad_1 = assign.node "mlp_b2_grad" local because "intermediate value" : memref<16xf32>
    %mlp_w3_grad_1 = assign.node "mlp_w3_grad" local because "intermediate value" : memref<1x16xf32>
    %n23 = assign.node "n23" local because "intermediate value" : memref<f32>
    %n24 = assign.node "n24" local because "intermediate value" : memref<f32>
    %n25 = assign.node "n25" local because "intermediate value" : memref<f32>
    %n26 = assign.node "n26" local because "intermediate value" : memref<1x16xf32>
    %n27 = assign.node "n27" local because "intermediate value" : memref<1x16xf32>
    %n28 = assign.node "n28" local because "intermediate value" : memref<1x16xf32>
    %n29 = assign.node "n29" local because "intermediate value" : memref<1x16xf32>
    %n30 = assign.node "n30" local because "intermediate value" : memref<16xf32>
    %n31 = assign.node "n31" local because "intermediate value" : memref<16xf32>
    %n32 = assign.node "n32" local because "intermediate value" : memref<16xf32>
    %n33 = assign.node "n33" local because "intermediate value" : memref<16xf32>
    %n34 = assign.node "n34" local because "intermediate value" : memref<16x16xf32>
    %n35 = assign.node "n35" local because "intermediate value" : memref<16x16xf32>
    %n36 = assign.node "n36" local because "intermediate value" : memref<16x16xf32>
    %n37 = assign.node "n37" local because "intermediate value" : memref<16x16xf32>
    %n38 = assign.node "n38" local because "intermediate value" : memref<16xf32>
    %n39 = assign.node "n39" local because "intermediate value" : memref<16xf32>
    %n40 = assign.node "n40" local because "intermediate value" : memref<16xf32>
    %n41 = assign.node "n41" local because "intermediate value" : memref<16xf32>
    %n42 = assign.node "n42" local because "intermediate value" : memref<16x2xf32>
    %n43 = assign.node "n43" local because "intermediate value" : memref<16x2xf32>
    %n44 = assign.node "n44" local because "intermediate value" : memref<16x2xf32>
    %n45 = assign.node "n45" local because "intermediate value" : memref<16x2xf32>
    %0 = assign.embed step_n : f32
    assign.comment "loss gradient update"
    assign.accum %n1[b, 0] := %labels[batch_n, b, 0] over (b = 10)
    assign.accum %n8[b, o] := %moons[batch_n, b, o] over (b = 10, o = 2)
    assign.accum %n9[b, o] :add= mul(%mlp_w1[o, k], %n8[b, k]) over (b = 10, o = 16, k = 2)
    assign.accum %n10[b, o] := add(%mlp_b1[o], %n9[b, o]) over (b = 10, o = 16)
    assign.accum %relu[b, o] := relu(%n10[b, o]) over (b = 10, o = 16)
    assign.accum %n12[b, o] :add= mul(%mlp_w2[o, k], %relu[b, k]) over (b = 10, o = 16, k = 16)
    assign.accum %n13[b, o] := add(%mlp_b2[o], %n12[b, o]) over (b = 10, o = 16)
    assign.accum %relu2[b, o] := relu(%n13[b, o]) over (b = 10, o = 16)
    assign.accum %n15[b, 0] :add= mul(%mlp_w3[0, k], %relu2[b, k]) over (b = 10, k = 16)
    assign.accum %n16[b, 0] := mul(%n1[b, 0], %n15[b, 0]) over (b = 10)
    assign.accum %n17[b, 0] := sub(1.0, %n16[b, 0]) over (b = 10)
    assign.accum %relu3[b, 0] := relu(%n17[b, 0]) over (b = 10)
    assign.accum %n19[0] :add= %relu3[b, 0] over (b = 10)
    assign.accum %loss[0] := div(%n19[0], 10.0) over ()
    assign.accum %mlp_w1_grad[o, i] = 0.0 over (o = 16, i = 2)
    assign.accum %mlp_b1_grad[o] = 0.0 over (o = 16)
    assign.accum %mlp_w2_grad[o, i] = 0.0 over (o = 16, i = 16)
    assign.accum %mlp_b2_grad[o] = 0.0 over (o = 16)
    assign.accum %mlp_w3_grad[0, i] = 0.0 over (i = 16)
    assign.accum %loss_grad[0] = 0.0 over ()
    assign.accum %loss_grad[0] = 1.0 over ()
    assign.accum %n19_grad[0] := mul(%loss_grad[0], 0.1) over ()
    assign.accum %relu3_grad[b, 0] := %n19_grad[0] over (b = 10)
    assign.accum %n17_grad[b, 0] := relu_gate(%relu3[b, 0], %relu3_grad[b, 0]) over (b = 10)
    assign.accum %n16_grad[b, 0] := neg(%n17_grad[b, 0]) over (b = 10)
    assign.accum %n15_grad[b, 0] := mul(%n16_grad[b, 0], %n1[b, 0]) over (b = 10)
    assign.accum %relu2_grad[b, k] := mul(%n15_grad[b, 0], %mlp_w3[0, k]) over (b = 10, k = 16)
    assign.accum %n13_grad[b, o] := relu_gate(%relu2[b, o], %relu2_grad[b, o]) over (b = 10, o = 16)
    assign.accum %n12_grad[b, o] := %n13_grad[b, o] over (b = 10, o = 16)
    assign.accum %relu_grad[b, k] :add= mul(%n12_grad[b, o], %mlp_w2[o, k]) over (b = 10, o = 16, k = 16)
    assign.accum %n10_grad[b, o] := relu_gate(%relu[b, o], %relu_grad[b, o]) over (b = 10, o = 16)
    assign.accum %n9_grad[b, o] := %n10_grad[b, o] over (b = 10, o = 16)
    assign.accum %mlp_w1_grad_1[o, k] :add= mul(%n9_grad[b, o], %n8[b, k]) over (b = 10, o = 16, k = 2)
    assign.accum %mlp_w1_grad[o, i] add= %mlp_w1_grad_1[o, i] over (o = 16, i = 2)
    assign.accum %mlp_b1_grad_1[o] :add= %n10_grad[b, o] over (b = 10, o = 16)
    assign.accum %mlp_b1_grad[o] add= %mlp_b1_grad_1[o] over (o = 16)
    assign.accum %mlp_w2_grad_1[o, k] :add= mul(%n12_grad[b, o], %relu[b, k]) over (b = 10, o = 16, k = 16)
    assign.accum %mlp_w2_grad[o, i] add= %mlp_w2_grad_1[o, i] over (o = 16, i = 16)
    assign.accum %mlp_b2_grad_1[o] :add= %n13_grad[b, o] over (b = 10, o = 16)
    assign.accum %mlp_b2_grad[o] add= %mlp_b2_grad_1[o] over (o = 16)
    assign.accum %mlp_w3_grad_1[0, k] :add= mul(%n15_grad[b, 0], %relu2[b, k]) over (b = 10, k = 16)
    assign.accum %mlp_w3_grad[0, i] add= %mlp_w3_grad_1[0, i] over (i = 16)
    assign.comment "loss sgd update"
    assign.comment "mlp.w3 sgd step"
    assign.accum %n23[] := sub(3200.0, %0[]) over ()
    assign.accum %n24[] := mul(0.1, %n23[]) over ()
    assign.accum %n25[] := div(%n24[], 1600.0) over ()
    assign.accum %n26[0, i] := mul(0.0001, %mlp_w3[0, i]) over (i = 16)
    assign.accum %n27[0, i] := add(%mlp_w3_grad[0, i], %n26[0, i]) over (i = 16)
    assign.accum %n28[0, i] := mul(%n25[], %n27[0, i]) over (i = 16)
    assign.accum %n29[0, i] := sub(%mlp_w3[0, i], %n28[0, i]) over (i = 16)
    assign.accum %mlp_w3[0, i] = %n29[0, i] over (i = 16)
    assign.comment "mlp.b2 sgd step"
    assign.accum %n30[o] := mul(0.0001, %mlp_b2[o]) over (o = 16)
    assign.accum %n31[o] := add(%mlp_b2_grad[o], %n30[o]) over (o = 16)
    assign.accum %n32[o] := mul(%n25[], %n31[o]) over (o = 16)
    assign.accum %n33[o] := sub(%mlp_b2[o], %n32[o]) over (o = 16)
    assign.accum %mlp_b2[o] = %n33[o] over (o = 16)
    assign.comment "mlp.w2 sgd step"
    assign.accum %n34[o, i] := mul(0.0001, %mlp_w2[o, i]) over (o = 16, i = 16)
    assign.accum %n35[o, i] := add(%mlp_w2_grad[o, i], %n34[o, i]) over (o = 16, i = 16)
    assign.accum %n36[o, i] := mul(%n25[], %n35[o, i]) over (o = 16, i = 16)
    assign.accum %n37[o, i] := sub(%mlp_w2[o, i], %n36[o, i]) over (o = 16, i = 16)
    assign.accum %mlp_w2[o, i] = %n37[o, i] over (o = 16, i = 16)
    assign.comment "mlp.b1 sgd step"
    assign.accum %n38[o] := mul(0.0001, %mlp_b1[o]) over (o = 16)
    assign.accum %n39[o] := add(%mlp_b1_grad[o], %n38[o]) over (o = 16)
    assign.accum %n40[o] := mul(%n25[], %n39[o]) over (o = 16)
    assign.accum %n41[o] := sub(%mlp_b1[o], %n40[o]) over (o = 16)
    assign.accum %mlp_b1[o] = %n41[o] over (o = 16)
    assign.comment "mlp.w1 sgd step"
    assign.accum %n42[o, i] := mul(0.0001, %mlp_w1[o, i]) over (o = 16, i = 2)
    assign.accum %n43[o, i] := add(%mlp_w1_grad[o, i], %n42[o, i]) over (o = 16, i = 2)
    assign.accum %n44[o, i] := mul(%n25[], %n43[o, i]) over (o = 16, i = 2)
    assign.accum %n45[o, i] := sub(%mlp_w1[o, i], %n44[o, i]) over (o = 16, i = 2)
    assign.accum %mlp_w1[o, i] = %n45[o, i] over (o = 16, i = 2)
  }
}
