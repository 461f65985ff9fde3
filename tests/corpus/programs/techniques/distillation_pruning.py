"""Knowledge distillation: a teacher trained earlier, a student with a temperature, a pruned layer, weight norm."""
import torch
import torch.nn.functional as F
import torch.nn.utils.prune as prune
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

torch.manual_seed(51)
device = "cuda" if torch.cuda.is_available() else "cpu"
x_train = torch.randn(600, 20)
y_train = (x_train[:, 0] * x_train[:, 1] > 0).long() + (x_train[:, 2] > 0.5).long()

# %%
def build(*widths):
    layers = []
    for i, o in zip(widths, widths[1:]):
        layers += [nn.Linear(i, o), nn.ReLU()]
    return nn.Sequential(*layers[:-1]).to(device)


teacher, student = build(20, 96, 96, 3), build(20, 24, 3)
student[0] = weight_norm(student[0])
prune.l1_unstructured(student[2], "weight", amount=0.3)

# %%
opt = torch.optim.Adam(teacher.parameters(), lr=5e-3)
for _ in range(40):
    opt.zero_grad()
    F.cross_entropy(teacher(x_train.to(device)), y_train.to(device)).backward()
    opt.step()
teacher.requires_grad_(False).eval()

# %%
def distillation(student_logits, teacher_logits, labels, T=3.0, alpha=0.7):
    soft = F.kl_div(F.log_softmax(student_logits / T, 1), F.softmax(teacher_logits / T, 1), reduction="batchmean")
    return alpha * T * T * soft + (1 - alpha) * F.cross_entropy(student_logits, labels)


optimizer = torch.optim.Adam(student.parameters(), lr=3e-3)
warm = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=50)
decay = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.99)
scheduler = torch.optim.lr_scheduler.SequentialLR(optimizer, [warm, decay], milestones=[50])

# %% train
for epoch in range(70):
    order = torch.randperm(len(x_train))
    for chunk in order.chunk(15):
        xb, yb = x_train[chunk].to(device), y_train[chunk].to(device)
        with torch.no_grad():
            teacher_logits = teacher(xb)
        loss = distillation(student(xb), teacher_logits, yb)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
    if epoch % 10 == 9:
        print(epoch, f"{loss.item():.4f} lr {scheduler.get_last_lr()[0]:.2e}")
prune.remove(student[2], "weight")

# %%
print(f"{(student[2].weight == 0).float().mean().item():.2f}", (student(x_train.to(device)).argmax(1).cpu() == y_train).float().mean().item() > 0.5)
